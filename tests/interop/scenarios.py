"""Logs with a past: written, crashed, truncated, compacted. Our code makes each, with a list of its records."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.interop.log_writer import NOW, LogWriter, Producer, some_records

from qanat.log.background_jobs import run_now
from qanat.log.compaction.compaction import begin_compaction
from qanat.log.flush_state import begin_flush
from qanat.log.segments import file_names
from qanat.log.settings import DirectorySettings
from qanat.log.truncation import begin_truncation
from qanat.wire.compression import Codec
from qanat.wire.records import Record

DELETE_RETENTION_MS = 60_000
COMPACTED_MS = NOW + DELETE_RETENTION_MS
LATER_MS = NOW + 10 * DELETE_RETENTION_MS

IDEMPOTENT = 4000
COMMITTING = 4001
ABORTING = 4002
UNDECIDED = 4003


def _small(folder: Path, **settings: object) -> LogWriter:
    """Many segments, and an index entry for almost every batch."""
    return LogWriter(folder, segment_bytes=4096, index_interval_bytes=300, **settings)


def _fill(writer: LogWriter, batches: int) -> None:
    codecs = list(Codec)
    for i in range(batches):
        writer.send(some_records(1 + i % 9, writer.clock_ms, seed=i), codecs[i % len(codecs)])


def plain(folder: Path) -> LogWriter:
    """Every codec and every kind of record, over several segments and leaders."""
    writer = _small(folder)
    _fill(writer, 25)
    writer.lead(2)
    _fill(writer, 25)
    writer.lead(5)
    _fill(writer, 10)
    writer.finish()
    return writer


def stamped(folder: Path) -> LogWriter:
    """A topic with the broker's timestamps; the account has those, too."""
    writer = _small(folder, message_timestamp_type="LogAppendTime")
    for i in range(30):
        first = writer.log.end_offset
        writer.send(some_records(4, NOW - 5_000, seed=i), list(Codec)[i % 5])
        for offset in range(first, writer.log.end_offset):
            record = writer.records[offset]
            writer.records[offset] = Record(offset, writer.clock_ms, record.key, record.value, record.headers)
    writer.finish()
    return writer


def transactions(folder: Path) -> LogWriter:
    """Interleaved producers: one idempotent, one that commits, one that aborts, one that is never done."""
    writer = _small(folder)
    plain_one, commits, aborts = Producer(IDEMPOTENT), Producer(COMMITTING, True), Producer(ABORTING, True, epoch=7)
    for i in range(24):
        writer.send_pairs((b"c%d" % i, b"committed" * 9), producer=commits, codec=Codec(i % 5))
        writer.send_pairs((b"i%d" % i, b"x" * 50), (b"i", None), producer=plain_one)
        writer.send_pairs((b"a%d" % i, b"aborted" * 9), (b"a", b"too"), producer=aborts, codec=Codec(i % 5))
        if i % 4 == 3:
            aborts.coordinator_epoch += 1
            writer.end(aborts, is_commit=False)
        if i % 6 == 5:
            writer.end(commits, is_commit=True)
    writer.send_pairs((b"u", b"undecided"), producer=Producer(UNDECIDED, True))
    writer.finish()
    return writer


def recovered(folder: Path) -> LogWriter:
    """Killed in the middle of a write: garbage at the end, closed segments not yet sealed; then written on."""
    doomed = _small(folder.with_name("doomed"))
    producer = Producer(ABORTING, True)
    _fill(doomed, 20)
    doomed.flush()
    _fill(doomed, 20)
    doomed.send_pairs((b"k", b"aborted"), producer=producer)
    doomed.end(producer, is_commit=False)
    _fill(doomed, 20)
    whole = bytes(doomed.log.active.view())
    shutil.copytree(doomed.folder, folder)
    shutil.rmtree(doomed.folder)
    with (folder / Path(doomed.log.active.file.path).name).open("ab") as file:
        file.write(whole[: len(whole) * 2 // 3] + bytes(200) + b"\xff" * 50)
    return _taken_up(doomed, folder)


def forgetful(folder: Path) -> LogWriter:
    """Nothing survived but the logs themselves: every table and snapshot is made anew."""
    doomed = transactions(folder)
    for path in folder.iterdir():
        if path.suffix != file_names.LOG:
            path.unlink()
    return _taken_up(doomed, folder)


def _taken_up(doomed: LogWriter, folder: Path) -> LogWriter:
    """What a dead process left is opened again and written on; the account goes on as well."""
    writer = _small(folder)
    assert not writer.log.damage
    assert writer.log.end_offset == doomed.log.end_offset
    writer.records, writer.codecs, writer.endings = doomed.records, doomed.codecs, doomed.endings
    writer.aborted, writer.aborted_transactions = doomed.aborted, doomed.aborted_transactions
    writer.producers, writer.clock_ms = doomed.producers, doomed.clock_ms
    _fill(writer, 10)
    writer.finish()
    return writer


def truncated(folder: Path) -> LogWriter:
    """A follower that was cut back into the middle of a segment and went on under a new leader."""
    writer = _small(folder)
    _fill(writer, 30)
    writer.lead(1)
    _fill(writer, 20)
    writer.lead(2)
    producer = Producer(ABORTING, True)
    writer.send_pairs((b"k", b"cut off"), producer=producer)
    writer.end(producer, is_commit=False)
    writer.flush()
    segment = writer.log.segments[len(writer.log.segments) // 2]
    cut_at = [header.base_offset for _, header in segment.batches()][2]
    run_now(begin_truncation(writer.log, cut_at))
    assert writer.log.end_offset == cut_at
    writer.forget_from(cut_at)
    writer.lead(3)
    _fill(writer, 15)
    writer.finish()
    return writer


def compacted(folder: Path) -> LogWriter:
    """One pass: replaced and aborted records are gone, tombstones wait for their time."""
    writer = _small(folder, cleanup_policy="compact", delete_retention_ms=DELETE_RETENTION_MS)
    plain_one, commits, aborts = Producer(IDEMPOTENT), Producer(COMMITTING, True), Producer(ABORTING, True)
    for i in range(40):
        codec = Codec(i % 5)
        writer.send_pairs((b"often", b"%d" % i), (b"key %d" % i, b"v" * 40), (b"k%d" % (i % 7), b"x"), codec=codec)
        writer.send_pairs((b"gone %d" % (i % 9), b"1" * 30 if i % 3 else None), (b"o", b"o"), codec=codec, step_ms=-3)
        writer.send_pairs((b"once %d" % (i % 3), b"c"), producer=commits, codec=codec)
        writer.send_pairs((b"key %d" % i, b"never seen"), producer=aborts, codec=codec)
        if i % 8 == 7:
            writer.end(commits, is_commit=True)
            writer.end(aborts, is_commit=False)
    # The producer's last batch is replaced as a whole, and stays as a header that is newer than all around it.
    writer.send([Record(0, writer.clock_ms + 5_000, b"often", b"replaced")], producer=plain_one)
    writer.send_pairs((b"often", b"last"))
    writer.log.roll()
    writer.flush()
    compact(writer, COMPACTED_MS)
    _account_for_compaction(writer)
    return writer


def compacted_twice(folder: Path) -> LogWriter:
    """A second pass after the tombstones' time, which also joins segments that have become small."""
    writer = compacted(folder)
    before = len(writer.log.segments)
    writer.reopen()
    writer.clock_ms = LATER_MS
    for i in range(20):
        writer.send_pairs((b"often", b"%d" % i), (b"new %d" % i, b"y" * 100), codec=Codec(i % 5))
    writer.log.roll()
    writer.flush()
    compact(writer, LATER_MS)
    _account_for_compaction(writer)
    writer.records = {at: r for at, r in writer.records.items() if r.value is not None or r.timestamp >= LATER_MS}
    assert len(writer.log.segments) < before, "segments were to be joined"
    return writer


def compact(writer: LogWriter, now_ms: int) -> None:
    writer.log.advance_high_watermark(writer.log.end_offset)
    job = begin_compaction(writer.log, DirectorySettings(), now_ms)
    assert job is not None
    run_now(job)
    run_now(begin_flush(writer.log))


def _account_for_compaction(writer: LogWriter) -> None:
    """Of every key the last record that was not aborted."""
    seen = {at: record for at, record in writer.records.items() if at not in writer.aborted}
    latest = {record.key: at for at, record in sorted(seen.items())}
    writer.records = {at: record for at, record in seen.items() if latest[record.key] == at}


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        plain,
        stamped,
        transactions,
        recovered,
        forgetful,
        truncated,
        compacted,
        compacted_twice,
    )
}
