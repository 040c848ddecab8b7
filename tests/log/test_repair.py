"""Repair as a follower does it: cut at the damage, fetch the rest again; the log is whole, and stays so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.log.batches import (
    NOW,
    append,
    batch,
    checkpoint_of,
    compact,
    disk_with,
    flush,
    image,
    new_log,
    reopened,
    stored,
    truncate,
)

from qanat.log.background_jobs import run_now
from qanat.log.page_warmup import CheckJob
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.truncation import begin_restart

Damaging = Callable[[PartitionLog, dict[str, bytes]], None]
"""Changes the files of a log that no process has open."""

PLAIN = {"segment_bytes": 420}
COMPACTED = {"segment_bytes": 420, "cleanup_policy": "compact"}


def plain() -> PartitionLog:
    log = new_log(**PLAIN)
    for number in range(12):
        append(log, batch(1 + number % 3), leader_epoch=number // 4)
    flush(log)
    assert len(log.segments) >= 3
    return log


def compacted() -> PartitionLog:
    log = new_log(**COMPACTED)
    for number in range(14):
        key = b"often" if number % 2 else b"key-%d" % number
        append(log, batch([(key, b"x"), (key, b"y")]))
    compact(log)
    append(log, batch([(b"last", b"x")]))
    flush(log)
    return log


def flip(base: int, number: int, byte: int) -> Damaging:
    """A bit of a byte of a batch of the segment number `base`."""

    def damage(log: PartitionLog, files: dict[str, bytes]) -> None:
        segment = log.segments[base]
        position = [position for position, _ in segment.batches()][number]
        name = segment.file.path.rpartition("/")[2]
        changed = bytearray(files[name])
        changed[position + byte] ^= 1
        files[name] = bytes(changed)

    return damage


def flip_among_holes(log: PartitionLog, files: dict[str, bytes]) -> None:
    """In a segment where nothing says which offset it was."""
    with_holes = [segment.headers is not None and not segment.headers.is_dense for segment in log.segments]
    flip(with_holes.index(True), 0, 7)(log, files)


def lose_segment(log: PartitionLog, files: dict[str, bytes]) -> None:
    for suffix in (file_names.LOG, *file_names.COMPANION_SUFFIXES):
        files.pop(file_names.segment_file("", log.segments[1].base_offset, suffix).removeprefix("/"), None)


KINDS: dict[str, tuple[Callable[[], PartitionLog], Damaging]] = {
    "records of a sealed segment": (plain, flip(1, 1, 70)),
    "base offset in a sealed segment": (plain, flip(1, 1, 6)),
    "leader epoch in a sealed segment": (plain, flip(1, 1, 15)),
    "first batch of a sealed segment": (plain, flip(1, 0, 7)),
    "records of the open segment": (plain, flip(-1, 0, 70)),
    "base offset in the open segment": (plain, flip(-1, 0, 7)),
    "a segment is gone": (plain, lose_segment),
    "base offset in a compacted segment": (compacted, flip_among_holes),
}


def damaged(kind: str) -> tuple[PartitionLog, PartitionLog]:
    """A sound log, and the damage in a copy of it that was closed meanwhile."""
    make, damage = KINDS[kind]
    leader = make()
    files = image(leader.files)
    damage(leader, files)
    log = reopened(leader, disk_with(files), checkpoint_of(leader))
    for segment in log.segments:
        run_now(CheckJob(segment, 1 << 20, log.epochs.entries))
    assert len(log.damage) == 1
    return leader, log


def fetch_again(log: PartitionLog, leader: PartitionLog) -> None:
    while log.end_offset < leader.end_offset:
        read = leader.read(log.end_offset, 300)
        if not read.views():
            break
        log.append_replicated(b"".join(read.views()), NOW)
    flush(log)


def same(log: PartitionLog, leader: PartitionLog) -> bool:
    return stored(log) == stored(leader) and log.epochs.entries == leader.epochs.entries


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_cut_at_its_damage_and_fetched_again_is_whole(kind: str) -> None:
    leader, log = damaged(kind)
    (damage,) = log.damage

    truncate(log, damage.first_offset)

    assert not log.damage
    assert log.end_offset <= damage.first_offset
    fetch_again(log, leader)
    assert same(log, leader)
    again = reopened(log)
    assert not again.damage
    assert same(again, leader)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_anywhere_leaves_damage_below_it_and_none_above(kind: str) -> None:
    for offset in range(damaged(kind)[1].end_offset):
        leader, log = damaged(kind)
        (damage,) = log.damage

        truncate(log, offset)

        assert log.end_offset <= offset
        if damage.first_offset <= offset < damage.next_offset:
            assert log.end_offset <= damage.first_offset, "cut at the start of the damage, not inside it"
        # What follows damage in the same segment is fetched again with it.
        assert log.damage == ([damage] if damage.next_offset <= log.end_offset else [])
        assert log.damage or log.end_offset <= damage.first_offset or offset < damage.first_offset
        fetch_again(log, leader)
        if not log.damage:
            assert same(log, leader)
            assert same(reopened(log), leader)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_starts_afresh_has_no_damage(kind: str) -> None:
    leader, log = damaged(kind)
    flush(log)

    run_now(begin_restart(log, 0))

    assert (log.end_offset, log.damage) == (0, [])
    fetch_again(log, leader)
    assert same(log, leader)
    assert not reopened(log).damage
