"""Who runs a cluster on a data directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qanat.app.cluster.note import NOTE_FILE, ClusterError, held, is_held, read_note, write_note
from qanat.app.cluster.plan import BrokerPlan

BROKER = BrokerPlan(0, 9092, 19092, None)


def test_whoever_holds_a_directory_is_told_of_and_is_the_only_one(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with held(folder):
        write_note(folder, {BROKER: 77})
        note = read_note(folder)
        with pytest.raises(ClusterError, match=f"a cluster of process {os.getpid()} runs on .* --data-dir {folder}"):
            held(folder).__enter__()
        assert read_note(folder) == note, "who came second has not touched it"

    assert note is not None
    assert (note.supervisor, note.pid_of(0), note.pid_of(1)) == (os.getpid(), 77, None)
    assert (read_note(folder), is_held(folder)) == (None, False)


def test_a_note_of_somebody_who_was_killed_is_none_whoever_has_its_process_id_now(tmp_path: Path) -> None:
    """As in a container that is started again: everybody has the numbers that the last ones had."""
    (tmp_path / NOTE_FILE).write_text(json.dumps({"supervisor": os.getpid(), "brokers": []}))

    assert read_note(str(tmp_path)) is None
    with held(str(tmp_path)):
        assert read_note(str(tmp_path)) is None


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ClusterError, match="cannot make the data directory"):
        held(str(tmp_path / "file" / "data")).__enter__()
