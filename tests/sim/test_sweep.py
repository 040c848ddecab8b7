"""A sweep of many seeds that is stopped and goes on."""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

from qanat.sim.clusters.plan import Plan
from qanat.sim.clusters.run import Report
from qanat.sim.clusters.sweep import Notebook, reports


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


def _clean(seed: int) -> Report:
    return Report(seed, Plan.of(seed))
