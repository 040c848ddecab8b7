"""Every system that is installed here: started, driven in every way with next to no load, reported, ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench.peers import __main__ as command
from bench.peers import rounds, systems, workloads

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tuple(replace(one, count=100) for one in workloads.WORKLOADS)
    monkeypatch.setattr(workloads, "WORKLOADS", tiny)
    monkeypatch.setattr(command, "WORKLOADS", tiny)
    monkeypatch.setattr(command, "NEEDED_BYTES", 10**6)
    monkeypatch.setattr(command, "FEWEST_ROUNDS", 1)
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize("key", [key for key in systems.KEYS if key != "qanat"])
def test_a_system_beside_qanat(key: str, tmp_path: Path) -> None:
    ours, _ = systems.found([systems.QANAT])
    others, notes = systems.found([systems.KEYS[key]])
    if not others:
        pytest.skip(notes[0])
    written, folder = tmp_path / "result.json", tmp_path / "disk"
    folder.mkdir()

    assert command.main(["--rounds", "1", "--systems", key, "--dir", str(folder), "--json", str(written)]) == 0

    result = json.loads(written.read_text())
    assert result["notes"] == []
    for table, is_durable in zip(result["tables"], (False, True, False), strict=True):
        expected = {
            one.system.name
            for one in (*ours, *others)
            if "Start" in table["title"] or not one.why_not(is_durable=is_durable)
        }
        assert table["figures"]
        assert all(set(figure["systems"]) == expected for figure in table["figures"])
    assert str(others[0]) in result["settings"]
    assert list(folder.iterdir()) == []
