"""The console in a real Chromium: how soon rows are there, cold; how soon after each sort and filter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tools.toolchains.chromium import have_chromium

from bench.client.bars import Bar
from bench.console.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROUNDS = 12
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def bars(made: Stage, topics: int, groups: int) -> list[Bar]:
    """Raises `MissingToolError` where there is no browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(have_chromium()), args=list(_FLAGS))
        try:
            page = browser.new_page()
            elsewhere: list[str] = []
            weight = [0.0]

            def note(answer: Any) -> None:
                if made.http not in answer.url:
                    elsewhere.append(answer.url)
                elif "/console/" in answer.url:
                    weight[0] += int(answer.headers.get("content-length", 0))

            page.on("response", note)
            return [
                *_measured(page, made, topics, groups, weight),
                Bar("requests to other hosts", len(elsewhere), 0, "at most", ""),
            ]
        finally:
            browser.close()


def _measured(page: Page, made: Stage, topics: int, groups: int, weight: list[float]) -> list[Bar]:
    cold_s = _timed(lambda: page.goto(f"http://{made.http}/console/#/topics"), page, "topic-0000")
    found = [
        Bar(f"first page cold, {topics:,} topics, until rows are there", cold_s, 1.0, "at most", "s"),
        Bar("page weight, compressed", weight[0] / 1024, 150, "at most", "KiB"),
        Bar("nodes of the page", page.evaluate("document.querySelectorAll('*').length"), 2000, "at most", ""),
    ]
    changes = []
    for number in range(ROUNDS):
        wanted = f"topic-0{number % 3:04d}"
        changes.append(_timed(lambda text=wanted: page.get_by_label("Search topics").fill(text), page, wanted))  # type: ignore[misc]
        changes.append(_timed(lambda: page.get_by_label("Search topics").fill(""), page, "topic-00001"))
    changes.sort()
    found.append(Bar("filter, p95", 1000 * changes[int(0.95 * (len(changes) - 1))], 150, "at most", "ms"))
    groups_s = _timed(lambda: page.goto(f"http://{made.http}/console/#/groups"), page, "group-0")
    found.append(Bar(f"{groups:,} groups, until rows are there", groups_s, 1.0, "at most", "s"))
    return found


def _timed(act: Callable[[], object], page: Page, text: str) -> float:
    began = time.perf_counter()
    act()
    page.locator("main table").get_by_text(text).first.wait_for()
    return time.perf_counter() - began
