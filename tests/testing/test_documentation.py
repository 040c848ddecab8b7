"""Every example of docs/testing/index.md runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing" / "index.md"


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for number, example in enumerate(examples):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    # Named plugins only: Schemathesis and Hypothesis, which pytest would load, cost seconds.
    plugins = ["--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "qanat.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", "--timeout", "60"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)

    assert len(examples) >= 6
    assert done.returncode == 0, done.stdout[-3000:]
