"""Staged files of batches that become a log's last segment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    NOW,
    PARTITION,
    Writer,
    append,
    batch,
    end_transaction,
    examples,
    flush,
    log_settings,
    new_log,
    pairs_of,
    reopened,
    replicate,
    stored,
)
from tests.log.directories import WatchedFiles

from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.log.appended import Appended
from qanat.log.background_jobs import run_now
from qanat.log.files import Files
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segment_ingest import IngestJob, check_staged, find_ingested
from qanat.model.errors import (
    CorruptBatchError,
    InvalidTimestampError,
    NotIngestedError,
    NotLeaderError,
    OutOfOrderSequenceError,
    QanatError,
    StorageError,
)
from qanat.model.ids import LeaderEpoch
from qanat.wire.batch_header import BatchHeader, read_header
from qanat.wire.compression import Codec
from qanat.wire.records import set_producer
from qanat.wire.staged import BATCHES_MAX, hide, read_staged, staged_batch

PLACE = "/data/staging"
FILE = f"{PLACE}/some"
NOBODY = Writer(-1, -1, -1)


def stage(files: Files, batches: Sequence[bytes], path: str = FILE) -> str:
    """A file of these batches, as another process makes it."""
    files.make_directory(path.rpartition("/")[0])
    hidden = [bytearray(one) for one in batches]
    for one in hidden:
        hide(one)
    file = files.open(path, create=True)
    file.write(hidden, 0)
    file.close()
    return path


def named(records: int, writer: Writer = NOBODY, *, is_transactional: bool = False) -> BatchHeader:
    """What is said of a file with so many records."""
    sent = staged_batch("some/0123456789abcdef0123456789abcdef", records)
    set_producer(sent, writer.producer_id, writer.epoch, writer.sequence, is_transactional=is_transactional)
    return read_staged(sent).header


def begin(log: PartitionLog, path: str, header: BatchHeader, leader_epoch: int = 0) -> IngestJob:
    assert find_ingested(log, header, leader_epoch) is None
    return IngestJob(log, check_staged(log, path, header.record_count, log.settings, NOW), header, leader_epoch, NOW)


def ingest(log: PartitionLog, path: str, header: BatchHeader, leader_epoch: int = 0) -> Appended:
    job = begin(log, path, header, leader_epoch)
    run_now(job)
    assert job.appended is not None
    return job.appended


def sent_instead(batches: Sequence[bytes], writer: Writer, *, is_transactional: bool) -> list[bytes]:
    """The same batches as their producer would have sent them."""
    sent, sequence = [], writer.sequence
    for one in map(bytearray, batches):
        if writer is not NOBODY:
            sequence += set_producer(one, writer.producer_id, writer.epoch, sequence, is_transactional=is_transactional)
        sent.append(bytes(one))
    return sent


@examples
@given(st.data())
def test_a_file_taken_over_is_as_if_its_batches_had_been_sent(data: st.DataObject) -> None:
    before = data.draw(st.integers(0, 3), label="batches before")
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=12), label="batches in the file")
    codec = data.draw(st.sampled_from(Codec))
    writer, is_transactional = data.draw(st.sampled_from([(NOBODY, False), (Writer(7), False), (Writer(7), True)]))
    batches = [batch(size, timestamps=NOW - at, codec=codec) for at, size in enumerate(sizes)]
    log, other = new_log(segment_bytes=100_000), new_log(segment_bytes=100_000)
    for one in (log, other):
        for _ in range(before):
            append(one, batch(2), leader_epoch=3)

    appended = ingest(log, stage(log.files, batches), named(sum(sizes), writer, is_transactional=is_transactional), 3)
    for content in sent_instead(batches, writer, is_transactional=is_transactional):
        append(other, content, leader_epoch=3)

    assert (appended.base_offset, appended.last_offset) == (2 * before, other.end_offset - 1)
    assert stored(log) == stored(other)
    assert log.producers.states == other.producers.states
    assert log.epochs.encode() == other.epochs.encode()
    assert (log.unflushed_records, log.unflushed_bytes) == (other.unflushed_records, other.unflushed_bytes)
    assert (log.end_offset, log.last_stable_offset) == (other.end_offset, other.last_stable_offset)
    assert not log.files.exists(FILE)
    for offset in range(log.end_offset):
        assert log.read(offset, 1).next_offset == other.read(offset, 1).next_offset

    for one in (log, other):
        append(one, batch(1), leader_epoch=3)
        replicate(one)
    again = reopened(log)
    assert stored(again) == stored(other)
    assert again.producers.states == reopened(other).producers.states


def test_on_the_real_disk_nothing_but_headers_is_written(tmp_path: Path) -> None:
    files = WatchedFiles(OsFiles())
    log = new_log(files, f"{tmp_path}/t-0", segment_bytes=10_000_000)
    path = stage(files, [batch([(b"key", b"x" * 100_000)])] * 5, f"{tmp_path}/staging/some")
    written: list[str] = []
    files.before_write = written.append

    ingest(log, path, named(5, Writer(7), is_transactional=True))

    assert written == [path] * 5
    assert [key for _, key, _ in pairs_of(log)] == [b"key"] * 5
    append(log, batch(1))
    end_transaction(log, 7, is_commit=False)
    replicate(log)
    assert log.aborted_transactions(0, log.end_offset)[0].first_offset == 0
    again = open_log(OsFiles(), f"{tmp_path}/t-0", PARTITION, log.settings, Checkpoint())
    assert stored(again) == stored(log)


def test_one_file_after_another_and_batches_between_them() -> None:
    log = new_log(segment_bytes=100_000)
    writer = Writer(7)
    for turn in range(3):
        ingest(log, stage(log.files, [batch(2), batch(3)]), named(5, Writer(7, 0, 6 * turn)))
        append(log, batch(1, writer=Writer(7, 0, 6 * turn + 5)))
    flush(log)

    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    assert [header.base_offset for header, _ in stored(log)] == [0, 2, 5, 6, 8, 11, 12, 14, 17]
    assert [one.base_offset for one in log.producers.states[writer.producer_id].batches] == [8, 11, 12, 14, 17]


def test_asked_for_again_it_is_where_it_was() -> None:
    log = new_log(segment_bytes=100_000)
    append(log, batch(1))
    header = named(20, Writer(7, 2, 0), is_transactional=True)
    ingest(log, stage(log.files, [batch(2)] * 10), header)
    append(log, batch(4))

    for one in (log, reopened(log)):
        found = find_ingested(one, header, 0)
        assert found is not None
        assert (found.base_offset, found.last_offset, found.is_duplicate) == (1, 20, True)
    with pytest.raises(OutOfOrderSequenceError):
        find_ingested(log, named(3, Writer(7, 2, 5), is_transactional=True), 0)
    with pytest.raises(QanatError, match="fenced"):
        find_ingested(log, named(3, Writer(7, 1, 20), is_transactional=True), 0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cleanup_policy": "compact"}, "does not store batches unchanged"),
        ({"compression_type": "gzip"}, "does not store batches unchanged"),
        ({"message_timestamp_type": "LogAppendTime"}, "does not store batches unchanged"),
        ({"segment_bytes": 200}, "more than a segment"),
        ({"max_message_bytes": 100}, "too large a batch"),
    ],
)
def test_what_a_topic_would_not_store_as_it_is_is_not_taken_over(settings: dict[str, Any], reason: str) -> None:
    log = new_log(**{"segment_bytes": 100_000, **settings})
    path = stage(log.files, [batch(3)] * 2)

    with pytest.raises(NotIngestedError, match=reason):
        check_staged(log, path, 6, log.settings, NOW)

    assert (log.end_offset, log.is_appending) == (0, False)
    assert log.files.exists(path)


def test_a_file_that_is_not_there_or_cannot_be_read_is_not_taken_over_and_the_directory_lives() -> None:
    files = WatchedFiles(MemoryFiles())
    log = new_log(files)
    with pytest.raises(NotIngestedError, match="there is no staged file"):
        check_staged(log, FILE, 1, log.settings, NOW)

    def refuse(path: str) -> None:
        raise StorageError(f"{path} is on a bad sector")

    path = stage(files, [batch(1)])
    files.before_read = refuse
    with pytest.raises(NotIngestedError, match=r"cannot be read: .*bad sector"):
        check_staged(log, path, 1, log.settings, NOW)
    assert log.state.failure is None


def spoiled(*batches: bytes, cut: int = 0, flip: int | None = None) -> bytes:
    content = bytearray(b"".join(batches))
    if flip is not None:
        content[flip] ^= 1
    return bytes(content[: len(content) - cut])


def hidden(one: bytes) -> bytes:
    changed = bytearray(one)
    hide(changed)
    return bytes(changed)


@pytest.mark.parametrize(
    ("content", "records", "reason"),
    [
        (b"", 1, "0 records where 1 were announced"),
        (hidden(batch(2)), 3, "2 records where 3 were announced"),
        (spoiled(hidden(batch(2)), hidden(batch(2)), cut=1), 4, "no batch at byte"),
        (spoiled(hidden(batch(2)), b"x" * 20), 2, "no batch at byte"),
        (spoiled(hidden(batch(2)), flip=70), 2, "checksum mismatch"),
        (spoiled(hidden(batch(2)), flip=11), 2, "checksum mismatch"),
        (spoiled(hidden(batch(2)), flip=9), 2, "no batch at byte"),
        (spoiled(hidden(batch(2)), b"\0" * 61), 2, "no batch at byte"),
        (hidden(batch(2))[:61], 2, "no batch at byte"),
    ],
)
def test_a_file_that_is_not_what_was_announced_is_refused(content: bytes, records: int, reason: str) -> None:
    log = new_log(segment_bytes=100_000)
    log.files.make_directory(PLACE)
    file = log.files.open(FILE, create=True)
    file.write((content,), 0)

    with pytest.raises(CorruptBatchError, match=reason):
        check_staged(log, FILE, records, log.settings, NOW)
    assert log.end_offset == 0


def test_too_many_batches_and_timestamps_from_far_ahead_are_refused() -> None:
    log = new_log(segment_bytes=10_000_000)
    path = stage(log.files, [batch(1)] * (BATCHES_MAX + 1))
    with pytest.raises(NotIngestedError, match=str(BATCHES_MAX)):
        check_staged(log, path, BATCHES_MAX + 1, log.settings, NOW)
    path = stage(log.files, [batch(1, timestamps=NOW + 10_000_000)])
    with pytest.raises(InvalidTimestampError):
        check_staged(log, path, 1, log_settings(message_timestamp_after_max_ms=1000), NOW)


def test_a_file_whose_taking_over_was_begun_before_is_taken_over_all_the_same() -> None:
    """The broker was killed when it had written some of the headers: the file still has its own name."""
    log = new_log(segment_bytes=100_000)
    path = stage(log.files, [batch(2)] * 4)
    file = log.files.open(path)
    for at, whose in [(0, Writer(9, 4, 77)), (len(batch(2)), Writer(9, 4, 79))]:
        begun = file.read(at, len(batch(2)))
        begun[:] = batch(2, at=900, writer=whose, is_transactional=True)
        file.write((begun,), at)

    ingest(log, path, named(8, Writer(7)))

    found = [header for header, _ in stored(log)]
    assert [(one.base_offset, one.producer_id, one.base_sequence) for one in found] == [
        (0, 7, 0),
        (2, 7, 2),
        (4, 7, 4),
        (6, 7, 6),
    ]
    assert not any(one.is_transactional for one in found)


def test_who_stopped_leading_meanwhile_takes_nothing_over() -> None:
    log = new_log(segment_bytes=100_000)
    path = stage(log.files, [batch(2)])
    job = begin(log, path, named(2))
    log.become_follower(LeaderEpoch(1))
    job.run()

    with pytest.raises(NotLeaderError):
        job.finish()

    assert (log.end_offset, log.is_appending, log.segments[0].size) == (0, False, 0)
    assert log.files.exists(path)


@pytest.mark.parametrize("before", [0, 1])
def test_a_file_that_is_gone_when_it_is_renamed_costs_nothing(tmp_path: Path, before: int) -> None:
    log = new_log(OsFiles(), f"{tmp_path}/t-0", segment_bytes=100_000)
    for _ in range(before):
        append(log, batch(1))
    path = stage(log.files, [batch(2)], f"{tmp_path}/staging/some")
    job = begin(log, path, named(2))
    job.run()
    Path(path).unlink()

    with pytest.raises(NotIngestedError, match="could not be renamed"):
        job.finish()

    assert (log.end_offset, log.is_appending, log.state.failure) == (before, False, None)
    assert append(log, batch(1)).base_offset == before
    replicate(log)
    assert stored(reopened(log, OsFiles())) == stored(log)


def test_its_headers_are_what_a_follower_gets() -> None:
    log, follower = new_log(segment_bytes=100_000), new_log(segment_bytes=100_000)
    ingest(log, stage(log.files, [batch(2), batch(3)]), named(5, Writer(7), is_transactional=True), leader_epoch=6)

    follower.append_replicated(b"".join(content for _, content in stored(log)), NOW)

    assert stored(follower) == stored(log)
    assert follower.producers.states == log.producers.states
    assert {read_header(content).leader_epoch for _, content in stored(follower)} == {6}


def test_who_stopped_leading_while_the_file_was_renamed_has_an_empty_segment_again(tmp_path: Path) -> None:
    log = new_log(OsFiles(), f"{tmp_path}/t-0", segment_bytes=100_000)
    job = begin(log, stage(log.files, [batch(2)], f"{tmp_path}/staging/some"), named(2))
    assert job.is_in_place
    job.run()
    job.rename()
    log.become_follower(LeaderEpoch(1))
    with pytest.raises(NotLeaderError):
        job.finish()

    assert (log.end_offset, log.is_appending, log.active.file.size()) == (0, False, 0)
    log.become_leader(LeaderEpoch(2))
    append(log, batch(3), leader_epoch=2)
    replicate(log)
    assert [header.record_count for header, _ in stored(reopened(log, OsFiles()))] == [3]
