"""Rounds: what is made of samples, and of sides that fail; and what the workloads themselves are made of."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from bench.clients import DriverFailedError
from bench.cold import in_memory, make_cold
from bench.payloads_python import payloads_of
from bench.rounds import Pair, Rounds
from bench.workloads import CLIENTS, WORKLOADS, Sample, Workload
from tools.servers import Running, ServerFailedError

from bench import bare
from qanat.app.bench import machine

NOBODY = 2**22 + 1
"""More than Linux lets a process id be."""


class Steady:
    """Does so many messages a second, by workload where it matters."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def prepare(self, workload: Workload) -> None:
        pass

    def clear(self, workload: Workload) -> None:
        pass

    def sample(self, workload: Workload) -> Sample:
        return Sample({"count": 1_000, "seconds": self._seconds.get(workload.name, 1.0)}, broker_cpu_seconds=0.1)


class Failing(Steady):
    def sample(self, workload: Workload) -> Sample:
        raise DriverFailedError("flush: not everything was acknowledged in time")


def pair_of(ours: Steady, other: Steady, pid: int) -> Pair:
    return Pair(Running([os.getpid()], "", 0.0), Running([pid], "", 0.0), (ours, other))


def rounds_of(folder: Path, notes: list[str] | None) -> Rounds:
    return Rounds(bare.server(), bare.server(), 5, folder, lambda _: None, is_judged=True, notes=notes)


PRODUCE = next(one for one in WORKLOADS if one.name == "produce-100")


def test_a_side_that_fails_is_noted_and_the_others_figures_remain(tmp_path: Path) -> None:
    notes: list[str] = []
    rows = rounds_of(tmp_path, notes).measure(PRODUCE, pair_of(Steady({}), Failing({}), os.getpid()))

    assert [(one.ours, one.limit, one.verdict) for one in rows[:1]] == [(1_000.0, None, "for information")]
    assert len(notes) == 1
    assert "produce 100 B in batches failed on a bare loop" in notes[0]
    assert notes[0].endswith("flush: not everything was acknowledged in time")


def test_without_our_samples_there_is_no_row(tmp_path: Path) -> None:
    assert rounds_of(tmp_path, []).measure(PRODUCE, pair_of(Failing({}), Steady({}), os.getpid())) == []


def test_a_server_that_has_ended_ends_its_part_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match="ended during produce 100 B in batches"):
        rounds_of(tmp_path, []).measure(PRODUCE, pair_of(Steady({}), Failing({}), NOBODY))


def test_who_takes_no_notes_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DriverFailedError):
        rounds_of(tmp_path, None).measure(PRODUCE, pair_of(Steady({}), Failing({}), os.getpid()))


def test_growth_is_throughput_by_the_first_ones(tmp_path: Path) -> None:
    ours, other = Steady({"clients-1000": 2.0}), Steady({"clients-1000": 4.0})
    rows = rounds_of(tmp_path, []).measure_growth(CLIENTS, pair_of(ours, other, os.getpid()))

    flat = [one for one in rows if one.unit == "×"]
    assert [(one.figure, one.ours, one.limit, one.ratio) for one in flat] == [
        ("clients-100", 1.0, 1.0, 1.0),
        ("clients-1000", 0.5, 0.25, 2.0),
    ]
    assert [(one.verdict, one.goal_verdict) for one in flat] == [("met", "NOT met"), ("met", "met")]


def test_who_gains_with_clients_keeps_no_more_than_all(tmp_path: Path) -> None:
    ours, other = Steady({"clients-1000": 0.9}), Steady({"clients-1000": 0.5})
    rows = rounds_of(tmp_path, []).measure_growth(CLIENTS, pair_of(ours, other, os.getpid()))

    assert [(one.ours, one.limit) for one in rows if one.unit == "×"] == [(1.0, 1.0), (1.0, 1.0)]


class Noted(Steady):
    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__({})
        self._name = name
        self._order = order

    def sample(self, workload: Workload) -> Sample:
        self._order.append(self._name)
        return super().sample(workload)


def test_short_samples_are_taken_more_often_and_who_goes_first_changes(tmp_path: Path) -> None:
    order: list[str] = []
    pair = pair_of(Noted("ours", order), Noted("other", order), os.getpid())
    rounds_of(tmp_path, []).measure(replace(PRODUCE, turns=2), pair)

    first = order[::2]
    assert len(first) == 1 + 5 * 2, "one warms up"
    assert first == [["other", "ours"][number % 2] for number in (0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6)]


@pytest.mark.parametrize("size", [10, 100, 1024])
def test_metric_lines_are_distinct_and_compress_as_text_does(size: int) -> None:
    lines = payloads_of(size, "metrics")

    assert {len(line) for line in lines} == {size}
    text = b"".join(lines[: 2**20 // size])
    if size > 10:
        assert len(set(lines)) == len(lines)
        assert 2 < len(text) / len(zlib.compress(text)) < 12


def test_a_file_is_dropped_from_memory(tmp_path: Path) -> None:
    if machine.describe(tmp_path)["file system"] == "tmpfs":
        pytest.skip("a file in tmpfs is nowhere but in memory")
    file = tmp_path / "segment"
    file.write_bytes(os.urandom(1 << 20))
    assert in_memory([file])[0] == 1 << 20

    make_cold(tmp_path)

    assert in_memory([file])[0] == 0
