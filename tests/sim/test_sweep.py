"""A sweep of many seeds that is stopped and goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from itertools import count, islice
from pathlib import Path

import pytest
from verify.clusters.plan import Plan
from verify.clusters.run import Report
from verify.clusters.sweep import Notebook, reports

TIMEOUT_S = 60.0


def test_seeds_that_were_noted_are_passed_over(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for report in reports(_clean, [1, 2, 4], None, 1):
        Notebook(notes).note(report)

    notebook = Notebook(notes)

    assert [report.seed for report in notebook.reports] == [1, 2, 4]
    assert list(islice(notebook.left(count(1)), 3)) == [3, 5, 6]


def test_a_line_that_was_torn_counts_for_nothing(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for seed in (1, 2):
        Notebook(notes).note(_clean(seed))
    notes.write_bytes(notes.read_bytes()[:-5])

    assert list(Notebook(notes).left([1, 2, 3])) == [2, 3]
    Notebook(notes).note(_clean(2))
    assert list(Notebook(notes).left([1, 2, 3])) == [3]


def test_without_a_file_nothing_is_passed_over() -> None:
    notebook = Notebook(None)
    notebook.note(_clean(1))

    assert list(notebook.left([1, 2])) == [1, 2]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_sweep_that_is_ended(how: signal.Signals) -> None:
    line = [sys.executable, "-m", "verify.clusters", "--jobs", "2", "--seconds", "600"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as sweep:
        try:
            children = Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children")
            deadline = time.monotonic() + TIMEOUT_S
            while len(children.read_text().split()) < 2:
                assert time.monotonic() < deadline, "the sweep has not started its processes"
                time.sleep(0.01)
            sweep.send_signal(how)
            _, said = sweep.communicate(timeout=TIMEOUT_S)  # To the end of what all of them could say.
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(sweep.pid, signal.SIGKILL)

    assert (sweep.returncode, said) == ((0, b"\nstopped\n") if how is signal.SIGTERM else (-how, b""))


def _clean(seed: int) -> Report:
    return Report(seed, Plan.of(seed))
