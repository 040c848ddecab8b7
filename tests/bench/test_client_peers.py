"""What the client is measured beside is installed by the targets that measure, in the versions of constraints.txt."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from bench.client.page import RIVALS

ROOT = Path(__file__).resolve().parents[2]


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", one, maxsplit=1)[0] for one in requirements}


def test_make_installs_every_rival() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = _names((ROOT / "constraints.txt").read_text().splitlines())
    assert set(RIVALS) - _names(extras["dev"]) - _names(extras["peers"]) == set()
    assert _names(extras["peers"]) - pinned == set()

    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^\$\(PEERS_STAMP\):.*\n\t(.*)", makefile, re.MULTILINE)
    assert "'qanat[peers]'" in recipe
    assert re.search(r"^bench-client: .*\$\(PEERS_STAMP\)", makefile, re.MULTILINE)
