"""The pid file and the lock of a local cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qanat.app.cluster.cluster_plan import BrokerPlan
from qanat.app.cluster.pid_file import PID_FILE, ClusterError, is_locked, locked, read_pid_file, write_pid_file

BROKER = BrokerPlan(0, 9092, 19092, None)


def test_one_cluster_at_a_time_locks_a_directory_and_has_a_pid_file(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with locked(folder):
        write_pid_file(folder, {BROKER: 77})
        note = read_pid_file(folder)
        with pytest.raises(ClusterError, match=f"a cluster of process {os.getpid()} runs on .* --data-dir {folder}"):
            locked(folder).__enter__()
        assert read_pid_file(folder) == note, "who came second has not touched it"

    assert note is not None
    assert (note.supervisor, note.pid_of(0), note.pid_of(1)) == (os.getpid(), 77, None)
    assert (read_pid_file(folder), is_locked(folder)) == (None, False)


def test_the_pid_file_has_the_settings_without_secrets(tmp_path: Path) -> None:
    settings = {
        "super.users": "User:admin",
        "ssl.key.password": "hunter2",
        "listener.name.http.ssl.key.password": "hunter2",
        "ssl.keystore.key": "${file:/run/key}",
    }
    with locked(str(tmp_path)):
        write_pid_file(str(tmp_path), {BROKER: 77}, settings, "broker.yaml")
        note = read_pid_file(str(tmp_path))
        assert "hunter2" not in (tmp_path / PID_FILE).read_text()

    assert note is not None
    assert note.config == "broker.yaml"
    assert note.settings == {"super.users": "User:admin", "ssl.keystore.key": "${file:/run/key}"}


def test_the_pid_file_of_a_killed_cluster_does_not_count_even_if_its_pid_is_in_use(tmp_path: Path) -> None:
    """As in a restarted container: processes have the ids of the previous ones."""
    (tmp_path / PID_FILE).write_text(json.dumps({"supervisor": os.getpid(), "brokers": []}))

    assert read_pid_file(str(tmp_path)) is None
    with locked(str(tmp_path)):
        assert read_pid_file(str(tmp_path)) is None


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ClusterError, match="cannot create the data directory"):
        locked(str(tmp_path / "file" / "data")).__enter__()
