"""Compaction of whole logs: several segments, several passes, restarts, readers and damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    FOLDER,
    NOW,
    Writer,
    append,
    batch,
    batches_in,
    compact,
    contents,
    end_transaction,
    examples,
    fill,
    flush,
    new_log,
    overwrite,
    pairs_of,
    reopened,
    replicate,
    stored,
)

from qanat.log.background_jobs import run_now
from qanat.log.compaction.compaction import begin_compaction, cleanable_segments, dirty_ratio, is_compaction_due
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.settings import DirectorySettings
from qanat.wire.compression import Codec

LIMITS = DirectorySettings()
SIZE = len(batch([(b"k", b"v")]))


def compacted_log(**settings: object) -> PartitionLog:
    return new_log(**{"cleanup_policy": "compact", "segment_bytes": 4 * SIZE, **settings})


def put(log: PartitionLog, key: bytes, value: bytes | None, codec: Codec = Codec.NONE, timestamp: int = NOW) -> int:
    return append(log, batch([(key, value)], codec=codec, timestamps=timestamp)).base_offset


@examples
@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=40),
    passes=st.integers(1, 3),
    codec=st.sampled_from(list(Codec)),
)
def test_the_last_value_of_every_key_is_there_after_any_number_of_passes(
    keys: list[bytes], passes: int, codec: Codec
) -> None:
    log = compacted_log(segment_bytes=500)
    step = len(keys) // passes + 1
    for start in range(0, len(keys), step):
        for number, key in list(enumerate(keys))[start : start + step]:
            put(log, key, b"%d" % number, codec)
        compact(log)
    last = {key: number for number, key in enumerate(keys)}
    assert pairs_of(log) == sorted((number, key, b"%d" % number) for key, number in last.items())
    assert log.end_offset == len(keys)
    opened = reopened(log)
    assert pairs_of(opened) == pairs_of(log)
    assert opened.damage == []
    assert log.cleaned_offset == len(keys)


def test_small_segments_are_joined_up_to_the_bound() -> None:
    log = compacted_log()
    for number in range(40):
        put(log, b"%02d" % (number % 3), b"x")
    compact(log)
    compact(log)
    assert len(log.segments) == 2, "all that is left fits into one segment, besides the open one"
    assert [record.offset for record in contents(log)] == [37, 38, 39]
    logs = [name for name in log.files.list(FOLDER) if name.endswith(file_names.LOG)]
    assert len(logs) == 2
    assert not [name for name in log.files.list(FOLDER) if name.endswith((file_names.SWAP, file_names.CLEANED))]


def test_every_offset_can_still_be_looked_up() -> None:
    log = compacted_log(segment_bytes=10 * SIZE, index_interval_bytes=0)
    for number in range(100):
        put(log, b"%d" % (number % 17 if number < 90 else number), b"x")
    compact(log)
    left = [record.offset for record in contents(log)]
    for offset in range(log.end_offset):
        header = next(batches_in(log.read(offset, 1).views()[0]))[0]
        assert header.last_offset == next(at for at in left if at >= offset)


def test_tombstones_go_after_their_delay_even_where_the_topic_grows_no_more() -> None:
    log = compacted_log(delete_retention_ms=1000)
    put(log, b"a", b"1")
    put(log, b"a", None)
    put(log, b"b", b"2")
    compact(log, NOW)
    assert pairs_of(log) == [(1, b"a", None), (2, b"b", b"2")]
    compact(log, NOW + 999)
    assert pairs_of(log) == [(1, b"a", None), (2, b"b", b"2")]
    compact(reopened(log), NOW + 1000)
    assert pairs_of(reopened(log)) == [(2, b"b", b"2")]


def test_an_abort_marker_in_a_later_segment_counts() -> None:
    log = compacted_log()
    put(log, b"a", b"committed")
    append(log, batch([(b"a", b"aborted")], writer=Writer(7), is_transactional=True))
    log.roll()
    end_transaction(log, 7, is_commit=False)
    replicate(log)
    run_now(begin_compaction(log, LIMITS, NOW))
    assert pairs_of(log)[0] == (0, b"a", b"committed")


def test_aborted_transactions_are_known_as_long_as_their_marker_stands() -> None:
    log = compacted_log(delete_retention_ms=1000)
    append(log, batch([(b"a", b"aborted")], writer=Writer(7), is_transactional=True))
    end_transaction(log, 7, is_commit=False)
    append(log, batch([(b"a", b"committed")], writer=Writer(7, 0, 1), is_transactional=True))
    end_transaction(log, 7, is_commit=True)
    compact(log, NOW)
    assert pairs_of(log) == [(2, b"a", b"committed")]
    assert [tuple(entry[:3]) for entry in log.aborted_transactions(0, 4)] == [(7, 0, 1)]
    assert reopened(log).aborted_transactions(0, 4) == log.aborted_transactions(0, 4)
    compact(log, NOW)
    compact(log, NOW + 1000)
    assert log.aborted_transactions(0, 4) == []
    assert pairs_of(log) == [(2, b"a", b"committed")]
    assert [header.base_offset for header, _ in stored(log)] == [2, 3], "the commit marker stays with its record"


def test_nothing_above_an_open_transaction_or_the_high_watermark_is_touched() -> None:
    log = compacted_log(segment_bytes=2 * SIZE)
    for _ in range(6):
        put(log, b"a", b"1")
    log.roll()
    flush(log)
    assert cleanable_segments(log, NOW) == []
    log.advance_high_watermark(4)
    assert [segment.base_offset for segment in cleanable_segments(log, NOW)] == [0, 2]
    append(log, batch([(b"a", b"2")], writer=Writer(7), is_transactional=True))
    put(log, b"b", b"3")
    log.roll()
    replicate(log)
    assert [segment.base_offset for segment in cleanable_segments(log, NOW)] == [0, 2, 4]
    end_transaction(log, 7, is_commit=True)
    replicate(log)
    assert [segment.base_offset for segment in cleanable_segments(log, NOW)] == [0, 2, 4, 6]


def test_retries_are_recognised_after_compaction_and_without_snapshots() -> None:
    log = compacted_log()
    for sequence in range(6):
        append(log, batch([(b"a", b"%d" % sequence)], writer=Writer(7, 0, sequence)))
    put(log, b"a", b"last")
    compact(log)
    assert pairs_of(log) == [(6, b"a", b"last")]
    for name in log.files.list(FOLDER):
        if name.endswith(file_names.SNAPSHOT):
            log.files.remove(f"{FOLDER}/{name}")
    opened = reopened(log)
    again = append(opened, batch([(b"a", b"5")], writer=Writer(7, 0, 5)))
    assert (again.base_offset, again.is_duplicate) == (5, True)
    assert append(opened, batch([(b"a", b"6")], writer=Writer(7, 0, 6))).base_offset == 7


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_does_not_open_again_because_only_the_header_of_its_batch_is_left(is_commit: bool) -> None:
    """The marker stays as long as a producer's last batch does, be it without records."""
    log = compacted_log(delete_retention_ms=0)
    append(log, batch([(b"a", b"1")], writer=Writer(7), is_transactional=True))
    end_transaction(log, 7, is_commit=is_commit)
    put(log, b"a", b"2")
    for now in range(NOW, NOW + 5):
        compact(log, now)
    assert pairs_of(log) == [(2, b"a", b"2")]
    for name in log.files.list(FOLDER):
        if name.endswith(file_names.SNAPSHOT):
            log.files.remove(f"{FOLDER}/{name}")
    opened = reopened(log)
    assert opened.last_stable_offset == opened.high_watermark == 3
    assert opened.producers.states[7].batches == log.producers.states[7].batches


def test_a_dedupe_buffer_smaller_than_the_keys_needs_more_passes_and_gets_there() -> None:
    log = compacted_log(segment_bytes=20 * SIZE)
    for number in range(60):
        put(log, b"%02d" % (number % 30), b"%d" % number)
    progress = []
    while log.cleaned_offset < 60:
        compact(log, dedupe_bytes=1024)
        progress.append(log.cleaned_offset)
        assert len(progress) < 60
    assert len(progress) > 2
    assert progress == sorted(set(progress))
    assert [offset for offset, *_ in pairs_of(log)] == list(range(30, 60))
    assert pairs_of(reopened(log)) == pairs_of(log)


def test_young_records_wait_for_their_least_lag() -> None:
    log = compacted_log(min_compaction_lag_ms=1000, segment_bytes=2 * SIZE)
    for number in range(6):
        put(log, b"a", b"%d" % number, timestamp=NOW + 100 * number)
    log.roll()
    replicate(log)
    assert cleanable_segments(log, NOW + 1099) == []
    assert [segment.base_offset for segment in cleanable_segments(log, NOW + 1100)] == [0]
    assert len(cleanable_segments(log, NOW + 1500)) == 3


def test_compaction_is_due_by_the_share_of_new_bytes() -> None:
    log = compacted_log(min_cleanable_dirty_ratio=0.5, segment_bytes=4 * SIZE)
    assert not is_compaction_due(log, NOW)
    for number in range(16):
        put(log, b"%02d" % number, b"x")
    log.roll()
    replicate(log)
    assert dirty_ratio(log, NOW) == 1.0
    assert is_compaction_due(log, NOW)
    run_now(begin_compaction(log, LIMITS, NOW))
    assert dirty_ratio(log, NOW) == 0.0
    assert not is_compaction_due(log, NOW)
    for number in range(3):
        put(log, b"%02d" % number, b"y")
    log.roll()
    replicate(log)
    assert 0.0 < dirty_ratio(log, NOW) < 0.5
    assert not is_compaction_due(log, NOW)


def test_compaction_is_due_when_something_waited_too_long() -> None:
    log = compacted_log(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000, segment_bytes=4 * SIZE)
    for number in range(8):
        put(log, b"%d" % number, b"x")
    compact(log)
    put(log, b"0", b"y")
    log.roll()
    replicate(log)
    assert not is_compaction_due(log, NOW + 1000)
    assert is_compaction_due(log, NOW + 1001)


def test_a_topic_that_only_expires_is_never_due() -> None:
    log = new_log(segment_bytes=4 * SIZE, min_cleanable_dirty_ratio=0)
    fill(log, 10)
    replicate(log)
    assert not is_compaction_due(log, NOW)


def test_readers_see_the_old_log_until_the_pass_is_finished() -> None:
    log = compacted_log()
    for number in range(20):
        put(log, b"a", b"%d" % number)
    log.roll()
    replicate(log)
    before = pairs_of(log)
    views = log.read(0, 10_000).views()
    copies = [bytes(view) for view in views]
    job = begin_compaction(log, LIMITS, NOW)
    assert job is not None
    assert begin_compaction(log, LIMITS, NOW) is None
    job.run()
    assert pairs_of(log) == before
    put(log, b"b", b"meanwhile")
    job.finish()
    assert pairs_of(log) == [(19, b"a", b"19"), (20, b"b", b"meanwhile")]
    assert [bytes(view) for view in views] == copies


def test_a_pass_that_changes_nothing_leaves_the_files_alone() -> None:
    log = compacted_log(segment_bytes=100 * SIZE)
    for number in range(5):
        put(log, b"%d" % number, b"x")
    log.roll()
    replicate(log)
    segment = log.segments[0]
    compact(log)
    assert log.segments[0] is segment
    assert log.cleaned_offset == 5


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_segment_stops_the_pass_and_is_reported(damaged: int) -> None:
    log = compacted_log()
    for number in range(14):
        put(log, b"%d" % (number % 2), b"%d" % (number % 10))
    log.roll()
    replicate(log)
    overwrite(log, damaged, SIZE + 65, b"\xff")
    before = log.end_offset
    run_now(begin_compaction(log, LIMITS, NOW))
    first = log.segments[damaged].base_offset if damaged else 0
    assert [(one.first_offset, one.next_offset) for one in log.damage] == [(first + 1, first + 2)]
    assert log.cleaned_offset == 0
    assert log.end_offset == before
    assert log.running_job is None
    assert not is_compaction_due(log, NOW)
    assert begin_compaction(log, LIMITS, NOW) is None
    assert not [name for name in log.files.list(FOLDER) if name.endswith(file_names.CLEANED)]


def test_the_throttle_is_told_of_what_is_read_and_written() -> None:
    log = compacted_log()
    for number in range(20):
        put(log, b"a", b"%d" % (number % 10))
    log.roll()
    replicate(log)
    told: list[int] = []
    size = log.size
    run_now(begin_compaction(log, LIMITS, NOW, told.append))
    assert sum(told) >= 2 * size


def test_a_damage_found_while_cleaning_leaves_no_file_behind() -> None:
    """Keys are learnt from the new part only, so damage in the old part is met while writing."""
    log = compacted_log(segment_bytes=4 * SIZE)
    for number in range(8):
        put(log, b"%d" % number, b"x")
    compact(log)
    put(log, b"0", b"y")
    log.roll()
    replicate(log)
    overwrite(log, 0, SIZE + 65, b"\xff")
    run_now(begin_compaction(log, LIMITS, NOW))
    assert [one.first_offset for one in log.damage] == [1]
    assert not [name for name in log.files.list(FOLDER) if name.endswith((file_names.CLEANED, file_names.SWAP))]
