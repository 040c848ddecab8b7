"""Every example of docs/client/apps.md and docs/client/testing.md runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from qanat.client import App
from qanat.testing import EmbeddedBroker

PAGES = Path(__file__).resolve().parents[2] / "docs" / "client"


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


def test_the_apps_of_the_page_are_declared_and_its_java_names_run() -> None:
    found = examples("apps.md")
    assert len(found) == 5
    with EmbeddedBroker() as broker:
        broker.create_topic("test-topic")
        for number, example in enumerate(found):
            names: dict[str, object] = {"__name__": f"example_{number}"}
            text = example.replace("localhost:9092", broker.bootstrap_servers)
            exec(compile(text, f"apps.md example {number}", "exec"), names)
            app = names.get("app")
            if isinstance(app, App):
                assert app.handlers
            else:
                assert names["received"] == ["Hello World!"]


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    found = examples("testing.md")
    assert len(found) == 3
    for number, example in enumerate(found):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    # Named plugins only: Schemathesis and Hypothesis, which pytest would load, cost seconds.
    plugins = ["--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "qanat.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", "--timeout", "60"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
