"""Programs as users write them pass mypy (strict) and pyright: the examples of pages, and examples/."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.test_documentation import PAGES, examples
from tools.toolchains.pyright import have_pyright
from tools.toolchains.registries import MissingToolError

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_S = 170


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("programs"))
    for page in sorted(PAGES.glob("*.md")):
        for number, example in enumerate(examples(page)):
            (folder / f"{page.stem}_{number}.py").write_text(example)
    for file in sorted(EXAMPLES.glob("*.py")):
        if "qanat.client" in file.read_text():
            shutil.copy(file, folder)
    assert len(list(folder.iterdir())) > 25
    return folder


def test_mypy_finds_nothing(programs: Path) -> None:
    options = ["--strict", "--cache-dir", str(programs / ".cache"), "--disable-error-code", "import-untyped"]
    command = [sys.executable, "-m", "mypy", *options, "--follow-imports=silent", "."]
    done = subprocess.run(command, cwd=programs, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_pyright_finds_nothing(programs: Path) -> None:
    try:
        pyright = have_pyright()
    except MissingToolError as reason:
        pytest.skip(f"pyright does not judge here: {reason}")
    command = [*pyright, "--pythonpath", sys.executable, "--outputjson", "."]
    done = subprocess.run(command, cwd=programs, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stdout.startswith("{"), done.stderr[-300:]
    report = json.loads(done.stdout)
    found = [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in report["generalDiagnostics"]
    ]
    assert found == []
    assert report["summary"]["filesAnalyzed"] > 25
