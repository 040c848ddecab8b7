"""Reading: whole batches, in bounds, never twice and never skipped, and never a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    NOW,
    append,
    batch,
    batches_in,
    compact,
    contents,
    examples,
    fill,
    flush,
    new_log,
    overwrite,
    replicate,
    stored,
    truncate,
)

from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.log.background_jobs import run_now
from qanat.log.log_reads import LogRead
from qanat.log.partition_log import PartitionLog
from qanat.log.retention import begin_retention
from qanat.log.segments.batch_scan import Damage
from qanat.log.truncation import begin_restart
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptLogError, OffsetOutOfRangeError

SIZE = len(batch(2))


def bases(read: LogRead) -> list[int]:
    return [header.base_offset for view in read.views() for header, _ in batches_in(view)]


@examples
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=25),
    segment_bytes=st.integers(150, 900),
    max_bytes=st.integers(0, 700),
    step=st.integers(0, 300),
)
def test_reading_step_by_step_gives_every_batch_once(
    sizes: list[int], segment_bytes: int, max_bytes: int, step: int
) -> None:
    log = new_log(segment_bytes=segment_bytes, index_interval_bytes=step)
    expected = [append(log, batch(size)).base_offset for size in sizes]
    assert [header.base_offset for header, _ in stored(log, max_bytes)] == expected
    flush(log)
    assert [header.base_offset for header, _ in stored(log, max_bytes)] == expected


@examples
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=20),
    offset=st.integers(0, 60),
    end=st.integers(0, 80),
    max_bytes=st.integers(0, 1500),
)
def test_a_read_is_what_walking_the_log_would_give(sizes: list[int], offset: int, end: int, max_bytes: int) -> None:
    log = new_log(segment_bytes=400, index_interval_bytes=150)
    extents = []
    for size in sizes:
        where = append(log, batch(size))
        extents.append((where.base_offset, where.last_offset, len(batch(size))))
    offset = min(offset, log.end_offset)
    expected: list[int] = []
    room = max_bytes
    for first, last, length in extents:
        if last < offset:
            continue
        if last >= end or (expected and length > room):
            break
        expected.append(first)
        room -= length
        if room <= 0:
            break
    read = log.read(offset, max_bytes, end)
    assert bases(read) == expected
    assert read.size == sum(length for first, _, length in extents if first in expected)


def test_the_end_of_the_log_reads_as_nothing_yet() -> None:
    log = new_log(segment_bytes=300)
    assert log.read(0, 1000) == LogRead((), 0)
    fill(log, 5, 2)
    assert log.read(10, 1000) == LogRead((), 10)


def test_the_first_batch_comes_even_if_it_is_larger_than_was_asked_for() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 6, 2)
    for max_bytes in (0, 1, SIZE - 1, SIZE, SIZE + 1):
        read = log.read(5, max_bytes)
        assert bases(read) == [4]
        assert read.next_offset == 6
    assert bases(log.read(0, 3 * SIZE)) == [0, 2, 4]


def test_a_read_stops_below_its_bound_in_the_middle_of_the_log_and_of_a_batch() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 6, 2)
    assert bases(log.read(0, 10_000, 8)) == [0, 2, 4, 6]
    assert bases(log.read(0, 10_000, 9)) == [0, 2, 4, 6], "a batch that is half above the bound is not shown"
    assert log.read(8, 10_000, 8) == LogRead((), 8)
    assert log.read(8, 10_000, 9) == LogRead((), 8)
    assert bases(log.read(0, 10_000, 99)) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("offset", [-1, 3, 13])
def test_an_offset_outside_is_refused_with_what_there_is(offset: int) -> None:
    log = new_log()
    fill(log, 6, 2)
    replicate(log)
    log.advance_log_start(4)
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"t-0 holds offsets 4 to 12 \(exclusive\), not {offset}"
    ) as caught:
        log.read(offset, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_goes_on_over_what_compaction_has_taken() -> None:
    log = new_log(cleanup_policy="compact", segment_bytes=SIZE)
    for number in range(12):
        append(log, batch([(b"hot", b"%d" % number), (b"cold-%d" % (number // 6), b"x")]))
    compact(log)
    left = [record.offset for record in contents(log)]
    assert left == [11, 22, 23]
    for offset in range(log.end_offset):
        read = log.read(offset, 1)
        assert read.next_offset > offset
        found = [header.last_offset for view in read.views() for header, _ in batches_in(view)]
        assert found == [next(last for last in (11, 23) if last >= offset)]


FILES: dict[str, Callable[[Path], tuple[MemoryFiles | OsFiles, str]]] = {
    "memory": lambda _: (MemoryFiles(), "/data/t-0"),
    "os": lambda path: (OsFiles(), str(path / "t-0")),
    "os with few descriptors": lambda path: (OsFiles(max_open=2), str(path / "t-0")),
}


@pytest.fixture(params=list(FILES))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., PartitionLog]:
    files, folder = FILES[request.param](tmp_path)
    return lambda **settings: new_log(files, folder, **settings)


def test_a_segment_is_read_while_it_is_written(make: Callable[..., PartitionLog]) -> None:
    log = make(segment_bytes=20 * SIZE)
    seen: list[int] = []
    held = []
    offset = 0
    for number in range(60):
        append(log, batch([(b"%d" % number, b"a"), (b"%d" % number, b"b")]))
        read = log.read(offset, 10_000)
        held += [(view, bytes(view)) for view in read.views()]
        seen += bases(read)
        offset = read.next_offset
        if number % 7 == 0:
            flush(log)
    assert seen == list(range(0, 120, 2))
    assert all(bytes(view) == copy for view, copy in held)


def test_what_was_handed_out_stays_the_same_whatever_happens_to_the_log(make: Callable[..., PartitionLog]) -> None:
    log = make(segment_bytes=3 * SIZE, cleanup_policy="compact,delete", retention_ms=1000)
    for number in range(20):
        append(log, batch([(b"k%d" % (number % 2), b"%d" % number), (b"l", b"-")]))
    replicate(log)

    def handed_out() -> list[tuple[memoryview, bytes]]:
        offset, held = log.log_start_offset, []
        while offset < log.end_offset:
            read = log.read(offset, 2 * SIZE)
            held += [(view, bytes(view)) for view in read.views()]
            offset = read.next_offset
        return held

    held = handed_out()
    truncate(log, 31)
    fill(log, 5, 2)
    held += handed_out()
    compact(log)
    held += handed_out()
    run_now(begin_retention(log, NOW + 5000))
    assert log.log_start_offset == log.end_offset
    fill(log, 5, 2)
    held += handed_out()
    flush(log)
    run_now(begin_restart(log, 5))
    fill(log, 2)
    assert all(bytes(view) == copy for view, copy in held)


def test_a_slice_is_a_view_of_the_file_and_no_copy(make: Callable[..., PartitionLog]) -> None:
    log = make()
    fill(log, 10, 2)
    whole = log.active.view()
    first, second = (log.read(offset, SIZE).views()[0] for offset in (0, 2))
    assert first.obj is second.obj is whole.obj
    assert first.readonly
    assert bytes(first) == bytes(whole[:SIZE])


def damaged_log(where: int, content: bytes) -> PartitionLog:
    """Three segments of four batches of two; some bytes of the middle one are other than they were."""
    log = new_log(segment_bytes=4 * SIZE)
    fill(log, 12, 2)
    flush(log)
    overwrite(log, 1, where, content)
    return log


def test_a_walk_over_nonsense_ends_with_an_error_and_the_damage_noted() -> None:
    """A length of -12 would stand still, one of zero would lose the rhythm."""
    for length in (-12, -(2**31), 0, 48, 2**31 - 1):
        log = damaged_log(SIZE + 8, length.to_bytes(4, "big", signed=True))
        with pytest.raises(CorruptLogError):
            log.read(12, 10_000)
        assert [(one.first_offset, one.next_offset) for one in log.damage] == [(10, 12)]
        assert bases(log.read(12, 10_000)) == [12, 14, 16, 18, 20, 22]


@pytest.mark.parametrize("byte", range(8))
def test_an_offset_that_went_astray_is_never_handed_out(byte: int) -> None:
    """The checksum does not cover a batch's offset, but a sealed segment knows how far it goes."""
    log = damaged_log(SIZE + byte, b"\x7f")
    seen: list[int] = []
    offset = 0
    while offset < log.end_offset:
        try:
            read = log.read(offset, 1)
        except CorruptLogError:
            assert log.damage
            offset += 1
            continue
        seen += bases(read)
        offset = read.next_offset
    assert seen == [0, 2, 4, 6, 8, 12, 14, 16, 18, 20, 22]


def test_a_read_ends_before_damage_and_the_next_one_is_refused_with_a_way_on() -> None:
    log = damaged_log(SIZE + 8, b"\xff" * 30)
    with pytest.raises(CorruptLogError):
        log.read(12, 10)
    read = log.read(0, 10_000)
    assert bases(read) == [0, 2, 4, 6, 8]
    assert read.next_offset == 10
    with pytest.raises(CorruptLogError, match=r"offsets 10 to 12 \(exclusive\) are damaged.*read on from 12") as caught:
        log.read(10, 10_000)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_damage_that_a_read_stumbles_over_is_reported_once() -> None:
    log = new_log(segment_bytes=100_000)
    fill(log, 3)
    flush(log)
    reported: list[tuple[PartitionLog, tuple[Damage, ...]]] = []
    log.state.on_damage = lambda where, found: reported.append((where, found))
    overwrite(log, 0, log.active.size // 3 + 8, b"\xff\xff\xff\xff")

    for _ in range(2):
        with pytest.raises(CorruptLogError):
            log.read(1, 1)

    ((where, (damage,)),) = reported
    assert where is log
    assert (damage.first_offset, damage.next_offset) == (1, 2)
    assert log.damage == [damage]
