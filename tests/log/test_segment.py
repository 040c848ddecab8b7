"""One segment: positions, boundaries, sealing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import FOLDER, NOW, batch, examples

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.index_tables import GrowingTables, SealedTables
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import decode_sidecar
from qanat.wire.batch_header import read_header


def segment_of(sizes: list[int], base_offset: int = 100, interval_bytes: int = 150) -> tuple[Segment, list[int]]:
    """A segment of batches with so many records each, and where they start."""
    files = MemoryFiles()
    files.make_directory(FOLDER)
    segment = Segment.create(files, FOLDER, base_offset, interval_bytes)
    starts = []
    for size in sizes:
        content = batch(size, at=segment.next_offset, timestamps=NOW + segment.next_offset)
        starts.append(segment.size)
        base = segment.next_offset
        segment.append((content,), len(content), base, base + size - 1, -1, NOW + base)
    return segment, starts


def seal(segment: Segment) -> None:
    sidecar = segment.describe()
    segment.write_seal(sidecar)
    segment.become_sealed(sidecar)


def test_offsets_that_nobody_has_are_not_in_the_last_batch() -> None:
    segment, starts = segment_of([2, 3])
    segment.next_offset = 120  # Compaction took what was there, or the next segment starts further ahead.

    assert segment.position_of(104) == starts[1]
    assert segment.position_of(105) == segment.position_of(119) == segment.size


@examples
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=15), is_sealed=st.booleans(), step=st.integers(0, 300))
def test_positions_and_boundaries_are_those_of_the_batches(sizes: list[int], is_sealed: bool, step: int) -> None:
    segment, starts = segment_of(sizes, interval_bytes=step)
    if is_sealed:
        seal(segment)
        assert segment.tables.check()
    ends = [*starts[1:], segment.size]
    assert [position for position, _ in segment.batches()] == starts
    assert [segment.batch_end(start) for start in starts] == ends
    offset = 100
    for start, size in zip(starts, sizes, strict=True):
        assert segment.offset_at(start, segment.view()) == offset
        assert {segment.position_of(offset + delta) for delta in range(size)} == {start}
        assert read_header(segment.batch(start)).base_offset == offset
        offset += size
    assert segment.position_of(offset) == segment.position_of(offset + 99) == segment.size
    assert segment.position_of(0) == 0
    for limit in range(0, segment.size + 50, 7):
        for start in starts[:3]:
            expected = max([start, *(end for end in ends if start < end <= limit)])
            assert segment.boundary_before(limit, start, segment.view()) == expected


def test_sealing_makes_a_segment_that_can_be_opened_by_its_sidecar_alone() -> None:
    segment, starts = segment_of([2, 1, 3])
    seal(segment)
    sidecar = decode_sidecar(read_whole(segment.files, segment.path(file_names.SIDECAR)) or b"", "")
    assert sidecar is not None
    opened = Segment.sealed(segment.files, FOLDER, 100, sidecar)
    assert isinstance(opened.tables, SealedTables)
    assert opened.tables.check()
    assert (opened.size, opened.next_offset, opened.max_timestamp) == (segment.size, 106, NOW + 103)
    assert [position for position, _ in opened.batches()] == starts
    assert repr(opened) == f"<Segment 100..106 {segment.size} bytes sealed>"


def test_a_sealed_segment_never_changes() -> None:
    segment, _ = segment_of([1])
    seal(segment)
    with pytest.raises(AssertionError, match="never changes"):
        segment.enter(segment.size, 100, 101, 101, 0, NOW)
    with pytest.raises(AssertionError):
        segment.describe()


def test_the_sidecar_remembers_damage() -> None:
    segment, starts = segment_of([1, 1, 1])
    damage = Damage(starts[1], starts[2], 101, 102, "rot")
    segment.damage = (damage,)
    seal(segment)
    sidecar = decode_sidecar(read_whole(segment.files, segment.path(file_names.SIDECAR)) or b"", "")
    assert sidecar is not None
    assert Segment.sealed(segment.files, FOLDER, 100, sidecar).damage == (damage,)


def test_damage_is_walked_around() -> None:
    segment, starts = segment_of([2, 2, 2])
    segment.damage = (Damage(starts[1], starts[2], 102, 104, "rot"),)
    assert [position for position, _ in segment.batches()] == [starts[0], starts[2]]
    assert segment.position_of(102) == segment.position_of(103) == starts[1]
    assert segment.position_of(104) == starts[2]
    assert segment.boundary_before(segment.size, starts[0], segment.view()) == starts[1]
    assert segment.offset_at(starts[1], segment.view()) == 102


def test_there_is_room_up_to_the_bound_and_as_far_as_tables_can_count() -> None:
    segment, _ = segment_of([1])
    size = segment.size
    assert not segment.is_full(50, 101, 0, size + 50, 1000)
    assert segment.is_full(51, 101, 0, size + 50, 1000)
    assert not segment.is_full(1, 100 + 2**31 - 1, 0, 10**6, 1000)
    assert segment.is_full(1, 100 + 2**31, 0, 10**6, 1000)


def test_the_newest_timestamp_is_kept_with_the_batch_that_brought_it() -> None:
    segment, _ = segment_of([])
    for offset, timestamp in enumerate([NOW, NOW + 5, NOW + 5, NOW - 3], start=100):
        segment.enter(segment.size, 10, offset, offset, 0, timestamp)
    assert (segment.max_timestamp, segment.max_timestamp_offset) == (NOW + 5, 101)
    assert isinstance(segment.tables, GrowingTables)
