"""C60, C61: every length and every flipped bit of a tail is survived; the same damage elsewhere is reported."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from tests.log.batches import FOLDER, NOW, PARTITION, Writer, append, batch, flush, log_settings, new_log, stored

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import find_damage
from qanat.log.segments.header_digest import HeaderPoint
from qanat.model.errors import CorruptLogError
from qanat.wire.batch_header import read_header
from qanat.wire.compression import Codec

SETTINGS = log_settings(segment_bytes=100_000)
LOG = file_names.segment_file(FOLDER, 0, file_names.LOG)
BASE_OFFSET, LEADER_EPOCH = range(8), range(12, 16)
"""Bytes of a batch that its checksum does not cover; the length between them is checked by its sense."""


def batches() -> list[bytes]:
    return [
        batch(2),
        batch(3, codec=Codec.GZIP),
        batch([(b"key", None)], writer=Writer(7), is_transactional=True),
        batch(2, codec=Codec.LZ4),
    ]


def written(content: list[bytes], *, is_rolled: bool = False) -> tuple[PartitionLog, dict[str, bytes]]:
    """A flushed log with these batches, and its files; rolled, a second segment follows."""
    log = new_log(segment_bytes=100_000)
    for one in content:
        append(log, one, leader_epoch=5)
    if is_rolled:
        log.roll()
        append(log, batch(1), leader_epoch=5)
    flush(log)
    return log, {name: read_whole(log.files, f"{FOLDER}/{name}") or b"" for name in log.files.list(FOLDER)}


def opened(content: dict[str, bytes], recovery_point: int = 0, headers: HeaderPoint | None = None) -> PartitionLog:
    files = MemoryFiles()
    files.make_directory(FOLDER)
    for name, data in content.items():
        write_volatile(files, f"{FOLDER}/{name}", data)
    return open_log(files, FOLDER, PARTITION, SETTINGS, Checkpoint(recovery_point=recovery_point, headers=headers))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def bits() -> Iterator[tuple[int, int, int]]:
    """Number of the batch, of the byte in it, of the bit in the file: all there are."""
    position = 0
    for number, one in enumerate(batches()):
        for bit in range(8 * len(one)):
            yield number, bit // 8, 8 * position + bit
        position += len(one)


def assert_goes_on(log: PartitionLog, end_offset: int) -> None:
    """Appending works, and gives out no offset before `end_offset`."""
    appended = append(log, batch(1), leader_epoch=6, now_ms=NOW + 1)
    flush(log)
    assert appended.base_offset >= end_offset
    seen, refused = walked(log)
    assert seen[-1] == appended.base_offset
    again = open_log(log.files, FOLDER, PARTITION, SETTINGS, Checkpoint())
    assert again.damage == log.damage
    assert walked(again) == (seen, refused)


def walked(log: PartitionLog) -> tuple[list[int], int]:
    """Reads from start to end, around damage: base offsets seen, and how many places were refused."""
    seen: list[int] = []
    refused = 0
    offset = log.log_start_offset
    while offset < log.end_offset:
        try:
            found = log.read(offset, 100)
        except CorruptLogError:
            refused += 1
            damage = next((one for one in log.damage if one.first_offset <= offset < one.next_offset), None)
            assert damage is not None, f"refused at {offset}, but the damage is {log.damage}"
            offset = damage.next_offset
            continue
        assert found.next_offset > offset, "reading must get on"
        data = b"".join(found.views())
        position = 0
        while position < len(data):
            seen.append(read_header(data, position).base_offset)
            position += read_header(data, position).size
        offset = found.next_offset
    return seen, refused


def test_a_tail_of_any_length_gives_its_whole_batches() -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    whole = [data for _, data in stored(log)]
    ends = [sum(map(len, whole[:count])) for count in range(len(whole) + 1)]

    for length in range(len(content[name])):
        shorter = opened(content | {name: content[name][:length]})
        kept = max(count for count, end in enumerate(ends) if end <= length)
        assert [data for _, data in stored(shorter)] == whole[:kept]
        assert not shorter.damage
        assert_goes_on(shorter, shorter.end_offset)


def test_any_flipped_bit_of_a_tail_gives_the_batches_before_it() -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    whole = [data for _, data in stored(log)]

    for number, byte, bit in bits():
        torn = opened(content | {name: flipped(content[name], bit)})
        if byte in LEADER_EPOCH and torn.damage:
            # Sound batches follow, so it is no tear: one batch is given up, this one or the first.
            (one,) = torn.damage
            starts = [read_header(data).base_offset for data in whole]
            assert one.first_offset in (starts[number], starts[0])
            assert torn.end_offset == log.end_offset
            continue
        kept = [data for _, data in stored(torn)]
        assert kept[:number] == whole[:number]
        assert not torn.damage
        if byte in LEADER_EPOCH:
            assert number in (0, len(whole) - 1), "between others it stands out"
            assert [data[16:] for data in kept[number:]] == [data[16:] for data in whole[number:]]
            continue  # What is appended to it shows that it is wrong, at the next start.
        assert len(kept) == number
        if bit % 29 == 0:
            assert_goes_on(torn, torn.end_offset)


TAILS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda one: bytes(5_000),
    "zeros in a batch": lambda one: one[:70] + bytes(len(one) - 70),
    "garbage of a sane length": lambda one: one[:30] + b"\xa5" * (len(one) - 30),
    "length 0": lambda one: one[:8] + struct.pack(">i", 0) + one[12:],
    "length below 0": lambda one: one[:8] + struct.pack(">i", -12) + one[12:],
    "largest length": lambda one: one[:8] + struct.pack(">i", 2**31 - 1) + one[12:],
    "an old batch again": lambda one: batch(2),
    "a batch from far ahead": lambda one: batch(2, at=1_000_000),
    "another format": lambda one: one[:16] + b"\x01" + one[17:],
    "a few bytes": lambda one: one[:5],
}


@pytest.mark.parametrize("tail", TAILS)
def test_whatever_follows_the_last_sound_batch_is_cut_off(tail: str) -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    following = batch(2, at=log.end_offset, leader_epoch=5)

    torn = opened(content | {name: content[name] + TAILS[tail](following)})

    assert [data for _, data in stored(torn)] == [data for _, data in stored(log)]
    assert not torn.damage
    assert torn.end_offset == log.end_offset
    assert_goes_on(torn, log.end_offset)


@pytest.mark.long
@pytest.mark.data
def test_below_the_recovery_point_a_flipped_bit_is_damage_and_no_end() -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    bases = [header.base_offset for header, _ in stored(log)]

    for number, byte, bit in bits():
        if byte not in LEADER_EPOCH and byte not in BASE_OFFSET and bit % 3:
            continue
        flipped_content = content | {name: flipped(content[name], bit)}
        damaged = opened(flipped_content, log.end_offset, log.header_point())
        assert [one.first_offset for one in damaged.damage] == [bases[number]]
        assert damaged.end_offset == log.end_offset
        seen, refused = walked(damaged)
        assert (seen, refused) == ([base for base in bases if base != bases[number]], 1)
        assert_goes_on(damaged, log.end_offset)


def test_below_the_recovery_point_an_offset_out_of_sequence_is_damage_without_a_header_checkpoint() -> None:
    """As an earlier version has left it; a leader epoch says nothing then."""
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    bases = [header.base_offset for header, _ in stored(log)]

    for number, byte, bit in bits():
        if byte not in BASE_OFFSET:
            continue
        damaged = opened(content | {name: flipped(content[name], bit)}, recovery_point=log.end_offset)
        assert [one.first_offset for one in damaged.damage] == [bases[number]]
        assert damaged.end_offset == log.end_offset
        seen, refused = walked(damaged)
        assert (seen, refused) == ([base for base in bases if base != bases[number]], 1)
        assert_goes_on(damaged, log.end_offset)


def test_holes_that_compaction_left_are_no_damage_when_the_topic_is_compacted_no_more() -> None:
    _, content = written([])
    name = LOG.rpartition("/")[2]
    holes = b"".join(batch(2, at=offset, leader_epoch=5) for offset in (0, 7, 9, 40, 42))

    opened_again = opened(content | {name: holes}, recovery_point=44)

    assert not opened_again.damage
    assert [header.base_offset for header, _ in stored(opened_again)] == [0, 7, 9, 40, 42]


def test_what_is_missing_below_the_point_is_damage() -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]
    ends = {header.next_offset for header, _ in stored(log)} | {0}

    for length in range(0, len(content[name]), 7):
        shorter = opened(content | {name: content[name][:length]}, log.end_offset, log.header_point())
        assert shorter.end_offset == log.end_offset
        assert shorter.damage[0].first_offset in ends
        assert shorter.damage[-1].next_offset == log.end_offset
        assert_goes_on(shorter, log.end_offset)


def test_damage_of_a_batch_with_more_records_than_bytes_gives_no_offset_out_again() -> None:
    _, content = written([batch([(None, b"")] * 5_000, codec=Codec.ZSTD)])
    name = LOG.rpartition("/")[2]
    assert len(content[name]) < 5_000

    damaged = opened(content | {name: flipped(content[name], 8 * 70)}, recovery_point=5_000)

    assert damaged.damage
    assert_goes_on(damaged, 5_000)


def test_a_recovery_point_from_another_log_is_not_believed() -> None:
    log, content = written(batches())
    name = LOG.rpartition("/")[2]

    torn = opened(content | {name: content[name] + bytes(100)}, recovery_point=10**12)

    assert not torn.damage
    assert torn.end_offset == log.end_offset


def test_a_sealed_segment_of_any_length_keeps_its_offsets_and_says_what_is_gone() -> None:
    log, content = written(batches(), is_rolled=True)
    name = LOG.rpartition("/")[2]
    bases = [header.base_offset for header, _ in stored(log)]
    ends = [header.next_offset for header, _ in stored(log)]

    for length in range(len(content[name])):
        damaged = opened(content | {name: content[name][:length]})
        assert damaged.damage
        assert damaged.end_offset == log.end_offset
        assert damaged.damage[-1].next_offset == ends[-2]
        seen, refused = walked(damaged)
        assert refused == 1
        assert seen == [base for base in bases if base < damaged.damage[0].first_offset or base == bases[-1]]
        if length % 17 == 0:
            assert_goes_on(damaged, log.end_offset)


@pytest.mark.long
@pytest.mark.data
def test_a_flipped_bit_in_a_sealed_segment_is_found_by_looking_and_survived_by_reading() -> None:
    log, content = written(batches(), is_rolled=True)
    name = LOG.rpartition("/")[2]

    for _, byte, bit in bits():
        damaged = opened(content | {name: flipped(content[name], bit)})
        first = damaged.segments[0]
        found = list(find_damage(first.file, 0, first.size, 0, first.next_offset, end_offset=first.next_offset))
        assert damaged.end_offset == log.end_offset
        if byte not in LEADER_EPOCH:
            assert found, f"bit {bit}"
        walked_around(damaged)
        first.damage = tuple(found)
        if byte not in LEADER_EPOCH and byte not in BASE_OFFSET:
            assert walked(damaged)[1] == 1


def walked_around(log: PartitionLog) -> None:
    """Reading at every offset ends, in batches or in `CorruptLogError`."""
    for offset in range(log.end_offset):
        try:
            assert log.read(offset, 1_000).next_offset >= offset
        except CorruptLogError:
            continue
