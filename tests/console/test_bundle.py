"""A support bundle in a real browser, without its broker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.app.processes import QANAT, clean_environment
from tests.console.browsing import Visit
from tests.servers.http.serving import ServedNode

from qanat.app.main import run as run_qanat

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCREENS = {
    "overview": "Brokers",
    "topics": "payments",
    "topics/orders": "broker 0",
    "groups": "billing",
    "groups/billing": "285",
    "queues/mailers": "acquired",
    "health": "healthy",
    "diagnosis": "Where the time of requests goes",
    "transactions": "There is no transactional id.",
}


def test_a_bundle_is_looked_at_without_a_cluster(browser: Browser, node: ServedNode, tmp_path: Path) -> None:
    path = tmp_path / "problem.zip"
    assert run_qanat(["bundle", f"http://127.0.0.1:{node.port}", "--to", str(path), "--seconds", "2"]) == 0
    line = [*QANAT, "console", "--bundle", str(path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=clean_environment()) as server:
        assert server.stdout is not None
        found = re.search(r"http://[\d.:]+", server.stdout.readline().decode())
        assert found is not None
        page = browser.new_page()
        try:
            visited = Visit(page, found[0])
            for screen, text in SCREENS.items():
                shown = visited.open(screen)
                shown.get_by_text(text, exact=False).first.wait_for()
            page.get_by_text("Bundle of 20").wait_for()
            page.goto(f"{found[0]}/console/#/topics")
            page.get_by_role("button", name="New topic").click()
            page.get_by_label("Name").fill("never")
            page.locator("dialog").get_by_role("button", name="Create").click()
            page.get_by_text("nothing can be changed").wait_for()
        finally:
            page.close()
            server.terminate()
            server.wait(60)
