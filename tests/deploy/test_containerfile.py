"""The Containerfile, read by hadolint: this machine's, or PyPI's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.toolchains.deployment import have_hadolint
from tools.toolchains.registries import MissingToolError

FILE = Path(__file__).resolve().parents[2] / "deploy" / "image" / "Containerfile"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def hadolint() -> str:
    try:
        return have_hadolint()
    except MissingToolError as fault:
        pytest.skip(str(fault))


def test_a_linter_finds_nothing_to_complain_about(hadolint: str) -> None:
    done = subprocess.run([hadolint, str(FILE)], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_linter_finds_what_is_wrong(hadolint: str, tmp_path: Path) -> None:
    wrong = tmp_path / "Containerfile"
    wrong.write_text("FROM debian\nRUN cd /tmp && sudo apt-get install python3\n")

    done = subprocess.run([hadolint, str(wrong)], capture_output=True, text=True)

    assert done.returncode != 0
    assert "DL3004" in done.stdout
