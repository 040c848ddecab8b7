"""Headers that compaction leaves without records count neither for looking up by time nor against retention."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.log_writer import LIMIT, NOW, LogWriter, Producer
from tests.interop.scenarios import COMPACTED_MS, DELETE_RETENTION_MS, compact, compacted

from qanat.log.background_jobs import run_now
from qanat.log.retention import begin_retention
from qanat.log.timestamp_lookup import TimestampedOffset, find_timestamp, newest_timestamp
from qanat.wire.records import Record

pytestmark = pytest.mark.long

HOUR_MS = 3_600_000


def test_the_newest_record_is_one_that_is_still_there(tmp_path: Path) -> None:
    writer = compacted(tmp_path / "log")
    newest = max(record.timestamp for record in writer.records.values())
    offsets = [at for at, record in writer.records.items() if record.timestamp == newest]

    assert newest_timestamp(writer.log) == newest
    assert find_timestamp(writer.log, newest, LIMIT) == TimestampedOffset(newest, min(offsets))
    assert find_timestamp(writer.log, newest + 1, LIMIT) is None


def test_a_compacted_log_that_has_only_its_logs_left_is_whole(tmp_path: Path) -> None:
    writer = compacted(tmp_path / "log")
    newest, end_offset = newest_timestamp(writer.log), writer.log.end_offset
    for path in writer.folder.iterdir():
        if path.suffix != ".log":
            path.unlink()

    writer.reopen()

    assert newest_timestamp(writer.log) == newest
    assert (writer.log.end_offset, writer.log.damage) == (end_offset, [])


def test_segments_that_compaction_emptied_do_not_keep_later_ones_from_expiring(tmp_path: Path) -> None:
    """One segment is left without a byte, one with the bare header of a producer's last batch."""
    writer = LogWriter(
        tmp_path, cleanup_policy="compact,delete", retention_ms=HOUR_MS, delete_retention_ms=DELETE_RETENTION_MS
    )
    writer.send_pairs((b"k", b"replaced"))
    writer.log.roll()
    writer.send([Record(0, NOW, b"k", b"replaced, too")], producer=Producer(1))
    writer.log.roll()
    writer.send_pairs((b"k", b"last"))
    writer.log.roll()
    writer.flush()
    # Each in a segment of its own, as larger ones would be.
    writer.log.apply_settings(LogWriter(tmp_path / "other", segment_bytes=100).settings)
    compact(writer, COMPACTED_MS)
    writer.log.apply_settings(writer.settings)
    assert [segment.max_timestamp < 0 for segment in writer.log.segments] == [True, True, False, True]

    run_now(begin_retention(writer.log, NOW + HOUR_MS // 2))
    assert writer.log.log_start_offset <= 2
    run_now(begin_retention(writer.log, NOW + 2 * HOUR_MS))

    assert len(writer.log.segments) == 1
    assert writer.log.log_start_offset == writer.log.end_offset
