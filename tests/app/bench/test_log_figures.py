"""Verdicts that can fail, and bare loops that really do the work that the log is compared with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qanat.app.bench.figures import Limit, Required, row, taking_turns
from qanat.app.bench.log_figures import bare_loops, lookup
from qanat.app.bench.log_figures.append import PARTITION, TOPIC_ID, append_all
from qanat.app.bench.log_figures.batches import SMALL_BATCH_BYTES, UNFLUSHED, batch_of
from qanat.app.bench.log_figures.read import chunks_of
from qanat.app.bench.report import Result, cells
from qanat.app.node.compose import open_log_directory
from qanat.wire.records import decode_records


@pytest.mark.parametrize(
    ("required", "verdict"),
    [
        (Required("ratio", ">=", 0.5), "met"),
        (Required("ratio", ">=", 0.51), "NOT met"),
        (Required("ours", "<=", 20.0), "met"),
        (Required("ours", "<=", 19.9), "NOT met"),
        (Required("ours", ">=", 20.1), "NOT met"),
        (None, "for information"),
    ],
)
def test_a_verdict_goes_by_what_is_required(required: Required | None, verdict: str) -> None:
    found = row("figure", "what", "MB/s", [10.0, 20.0, 30.0], Limit([20.0, 40.0, 60.0], "limit"), required)

    assert (found.ours, found.limit, found.ratio) == (20.0, 40.0, 0.5)
    assert found.verdict == verdict


def test_a_goal_is_shown_and_fails_nothing() -> None:
    floor, goal = Required("ratio", ">=", 0.5), Required("ratio", ">=", 0.6)
    found = row("figure", "what", "MB/s", [10.0], Limit([20.0], "limit"), floor, goal)

    assert (found.verdict, found.goal_verdict) == ("met", "NOT met")
    assert cells(found)[5:7] == ("ratio ≥ 0.50; goal ratio ≥ 0.60", "met; goal not met")
    assert Result({}, {}, [found], [], []).missed == []


def test_a_ratio_without_a_limit_is_not_met() -> None:
    assert row("figure", "what", "MB/s", [1.0], None, Required("ratio", ">=", 0.5)).verdict == "NOT met"


def test_the_ratio_is_taken_round_by_round() -> None:
    found = row("figure", "what", "MB/s", [10.0, 50.0, 40.0], Limit([10.0, 100.0, 50.0], "limit"))

    assert found.ratio == 0.8
    assert (found.lowest, found.highest) == (0.5, 1.0)


def test_measures_take_turns_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []

    def measure(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    ours, limit = taking_turns(3, lambda: measure("ours"), lambda: measure("limit"))
    assert calls == ["ours", "limit"] * 4
    assert (ours, limit) == ([3.0, 5.0, 7.0], [4.0, 6.0, 8.0])


def test_a_batch_fits_its_size_and_holds_the_records_it_claims() -> None:
    batch, count = batch_of(SMALL_BATCH_BYTES)
    records = decode_records(batch, 1 << 20)

    assert SMALL_BATCH_BYTES - 120 < len(batch) <= SMALL_BATCH_BYTES
    assert [len(record.value or b"") for record in records] == [100] * count


def test_the_bare_loop_writes_every_byte(tmp_path: Path) -> None:
    batch, _ = batch_of(4096)
    run = bare_loops.write(tmp_path / "bare", batch, 10)

    assert run.written_bytes == 10 * len(batch)
    assert (tmp_path / "bare").read_bytes() == batch * 10


def test_the_bare_sync_loop_syncs_every_byte_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, _ = batch_of(4096)
    bound = 4 * len(batch)
    sizes: list[int] = []
    real = os.fdatasync

    def counted(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    run = bare_loops.write_synced(tmp_path / "bare", batch, 50, bound)

    assert (tmp_path / "bare").read_bytes() == batch * 50
    assert run.synced_bytes == run.written_bytes == sizes[-1] == 50 * len(batch)
    assert run.syncs == len(sizes) >= 50 // 6
    assert run.most_unsynced_bytes <= bound + len(batch)


def test_a_write_that_fails_ends_the_bare_sync_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, data: bytes, position: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="No space"):
        bare_loops.write_synced(tmp_path / "bare", b"batch", 5, 100)


def test_the_bare_walk_reads_the_same_bytes_as_the_log(tmp_path: Path) -> None:
    batch, _ = batch_of(SMALL_BATCH_BYTES)
    directory = open_log_directory(str(tmp_path), topic_settings=lambda topic: UNFLUSHED)
    log = directory.create(PARTITION, TOPIC_ID, UNFLUSHED)
    append_all(log, batch, 200)
    chunks, folded = chunks_of(log)

    assert sum(end - start for _, start, end in chunks) == log.size == 200 * len(batch)
    assert bare_loops.MapWalk([segment.file.path for segment in log.segments]).walk(chunks)[1] == folded
    assert len(lookup.look_up(log, 20, seed=1)) == 20
    directory.close()
