"""Recovery of a segment that was being written: what is entered, what is damage, and what is a torn tail."""

from __future__ import annotations

import struct

import pytest
from tests.log.batches import (
    FOLDER,
    NOW,
    PARTITION,
    append,
    batch,
    checkpoint_of,
    disk_with,
    flush,
    image,
    log_settings,
    new_log,
    reopened,
    stored,
)
from tests.log.directories import WatchedFiles

from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments import file_names
from qanat.log.segments.header_digest import HeaderPoint
from qanat.wire.batch_header import HEADER_SIZE
from qanat.wire.crc import crc32c

NAME = f"{0:020d}{file_names.LOG}"
SIZE = len(batch(2))


def opened(
    content: bytes, recovery_point: int = 0, headers: HeaderPoint | None = None, **settings: object
) -> PartitionLog:
    """A log with one segment of these bytes, after recovery."""
    checkpoint = Checkpoint(recovery_point=recovery_point, headers=headers)
    return open_log(disk_with({NAME: content}), FOLDER, PARTITION, log_settings(**settings), checkpoint)


def rows(*offsets: int) -> list[bytes]:
    """Batches of two records at these offsets."""
    return [batch(2, at=offset, leader_epoch=0) for offset in offsets]


def rotten(content: bytes) -> bytes:
    """A batch whose checksum does not match, with its offset and its length as they were."""
    return content[:17] + bytes([content[17] ^ 1]) + content[18:]


def moved(content: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + content[8:]


def packed(at: int, count: int = 5_000) -> bytes:
    """A batch with more offsets than bytes: compaction has left one record of it."""
    return with_header(batch(1, at=at, leader_epoch=0), last_offset_delta=count - 1, record_count=1)


def without_records(at: int, count: int) -> bytes:
    """A batch of which compaction has left the header alone."""
    return with_header(batch(1, at=at, leader_epoch=0)[:HEADER_SIZE], last_offset_delta=count - 1, record_count=0)


def with_header(content: bytes, *, last_offset_delta: int, record_count: int) -> bytes:
    changed = bytearray(content)
    changed[8:12] = struct.pack(">i", len(content) - 12)
    changed[23:27] = struct.pack(">i", last_offset_delta)
    changed[57:61] = struct.pack(">i", record_count)
    changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


def lost(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.first_offset, one.next_offset) for one in log.damage]


def starts(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in stored(log)]


# With a header point.


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("after", [0, 2])
def test_batches_that_match_the_header_point_are_read_once(policy: str, after: int) -> None:
    log = new_log(cleanup_policy=policy)
    log.append_replicated(b"".join(rows(0, 2)), NOW)
    if policy == "compact":
        log.append_replicated(rows(9)[0], NOW)
    flush(log)
    checkpoint = checkpoint_of(log)
    for _ in range(after):
        append(log, batch(2))
    files = WatchedFiles(disk_with(image(log.files)))

    again = reopened(log, files, checkpoint)

    assert stored(again) == stored(log)
    assert files.count("read", file_names.LOG) == (2 if after else 1), "up to the point, and what follows it"


def damaged_in_the_middle() -> tuple[bytes, HeaderPoint]:
    """Three batches, the middle one the newest and with another leader epoch than the one it was written with."""
    log = new_log()
    for age in (5, 9, 1):
        append(log, batch(2, timestamps=NOW + age))
    flush(log)
    content = image(log.files)[NAME]
    point = log.header_point()
    assert point is not None
    return content[: SIZE + 15] + b"\x40" + content[SIZE + 16 :], point


def test_a_damaged_batch_counts_for_nothing_and_those_around_it_do() -> None:
    content, point = damaged_in_the_middle()
    files = disk_with({NAME: content, file_names.LEADER_EPOCHS: b"0\n1\n0 0\n"})
    again = open_log(files, FOLDER, PARTITION, log_settings(), Checkpoint(recovery_point=6, headers=point))

    assert lost(again) == [(2, 4)]
    assert again.segments[0].max_timestamp == NOW + 5, "retention goes by the readable batches"
    assert again.segments[0].max_timestamp_offset == 1


def test_a_wrong_offset_before_the_header_point_is_damage_in_a_compacted_topic_too() -> None:
    """Behind all others it looks like a batch after a hole."""
    log = new_log(cleanup_policy="compact")
    log.append_replicated(b"".join(rows(0, 2, 4)), NOW)
    flush(log)
    first, second, third = rows(0, 2, 4)

    again = opened(first + second + moved(third, 4 + 1024), 6, log.header_point(), cleanup_policy="compact")

    assert lost(again) == [(4, 6)]
    assert again.end_offset == 6


def test_a_segment_that_ends_elsewhere_than_the_header_point_is_not_taken_for_the_one_of_the_point() -> None:
    log = new_log()
    log.append_replicated(b"".join(rows(0, 2)), NOW)
    flush(log)
    shorter = batch([(b"k", b""), (b"k", b"")], at=2, leader_epoch=0)
    assert len(shorter) < SIZE

    again = opened(rows(0)[0] + shorter + rows(4)[0], 4, log.header_point())

    assert again.damage, "the point is inside of a batch"


def test_a_file_that_was_cut_inside_of_a_batch_has_lost_its_offsets_once() -> None:
    log = new_log()
    log.append_replicated(b"".join(rows(0, 2, 4)), NOW)
    flush(log)

    assert lost(opened(b"".join(rows(0, 2, 4))[: SIZE + 70], 6, log.header_point())) == [(2, 6)]
    assert lost(opened(b"".join(rows(0, 2, 4))[:SIZE], 6, log.header_point())) == [(2, 6)]


def test_bytes_that_are_all_there_are_not_reported_as_gone() -> None:
    log = new_log()
    log.append_replicated(batch(3, at=0, leader_epoch=0) + rows(3)[0], NOW)
    flush(log)
    content = rotten(batch(3, at=0, leader_epoch=0)) + moved(rows(3)[0], 2)

    again = opened(content, 5, log.header_point())

    assert [one.reason for one in again.damage if "gone" in one.reason] == []


# The age of a segment.


@pytest.mark.parametrize(
    ("timestamps", "now_ms", "segments"),
    [
        ((NOW, NOW + 500), NOW + 999, 1),
        ((NOW, NOW + 500), NOW + 1000, 2),  # The first batch counts, not the latest.
        ((0, 500), 1000, 2),  # A time like all others.
        ((-1, -1), NOW, 1),  # Without a time, nothing is known of its age.
        ((-1, NOW), NOW + 999, 1),
    ],
)
def test_a_recovered_segment_is_as_old_as_its_first_batch_with_a_time(
    timestamps: tuple[int, int], now_ms: int, segments: int
) -> None:
    content = b"".join(batch(1, at=at, timestamps=time, leader_epoch=0) for at, time in enumerate(timestamps))
    log = opened(content, segment_ms=1000)

    append(log, batch(1, timestamps=now_ms), now_ms=now_ms)

    assert len(log.segments) == segments


# Holes.


@pytest.mark.parametrize(("policy", "end_offset"), [("compact", 9), ("delete", 2)])
def test_a_batch_after_a_hole_with_garbage_behind_it_counts_where_compaction_leaves_holes(
    policy: str, end_offset: int
) -> None:
    again = opened(b"".join(rows(0, 7)) + bytes(100), cleanup_policy=policy)

    assert again.end_offset == end_offset
    assert not again.damage


def test_a_batch_after_a_hole_counts_where_a_batch_without_records_continues_it() -> None:
    again = opened(b"".join(rows(0, 7)) + without_records(9, 3))

    assert starts(again) == [0, 7, 9]
    assert (again.end_offset, again.damage) == (12, [])


def test_a_wrong_offset_in_a_compacted_topic_may_have_lost_all_up_to_the_next_batch() -> None:
    first, second, third = rows(0, 8, 20)

    again = opened(first + moved(second, 0) + third, 22, cleanup_policy="compact")

    assert lost(again) == [(2, 20)]
    assert starts_around(again) == [0, 20]


def starts_around(log: PartitionLog) -> list[int]:
    """The batches of the first segment, around its damage."""
    return [header.base_offset for _, header in log.segments[0].batches()]


def test_a_wrong_offset_and_the_damage_after_it_are_told_apart_where_there_are_no_holes() -> None:
    first, second, third, fourth = rows(0, 2, 4, 6)

    again = opened(first + moved(second, 0) + rotten(third) + fourth, 8)

    assert lost(again) == [(2, 4), (4, 6)]
    assert starts_around(again) == [0, 6]


# How far a recovery point is believed.


@pytest.mark.parametrize(
    ("content", "believed_to"),
    [
        (rotten(packed(0)), 5_000),
        (rotten(packed(0)) + packed(5_000), 10_000),
        (rotten(without_records(0, 5_000)), 5_000),
        (packed(0) + b"\xa5" * 100, 5_100),
    ],
    ids=["records of a header", "of two headers", "a header alone", "a record takes a byte"],
)
def test_a_recovery_point_is_believed_as_far_as_the_bytes_can_reach(content: bytes, believed_to: int) -> None:
    damaged = opened(content, believed_to)
    assert damaged.damage
    assert damaged.end_offset == believed_to, "no offset is assigned again"

    torn = opened(content, believed_to + 1)
    assert not torn.damage, "it was not written for this log"
    assert torn.end_offset in (0, 5_000)


@pytest.mark.parametrize(
    "content",
    [
        packed(0)[:16] + b"\x01" + packed(0)[17:],
        rotten(moved(packed(0), 10**6)),
        packed(0)[:8] + struct.pack(">i", 0) + packed(0)[12:],
    ],
    ids=["another format", "another offset", "a length of nothing"],
)
def test_bytes_that_look_like_no_header_do_not_say_how_far_a_segment_reaches(content: bytes) -> None:
    for recovery_point in (5_000, 10**6 + 5_000):
        again = opened(content, recovery_point)
        assert (again.end_offset, again.damage) == (0, [])


def test_a_batch_with_a_length_beyond_the_file_is_damage_below_the_recovery_point() -> None:
    first, second, third = rows(0, 2, 4)

    again = opened(first[:8] + struct.pack(">i", 2**30) + first[12:] + second + third, 6)

    assert lost(again) == [(0, 2)]
    assert again.end_offset == 6
