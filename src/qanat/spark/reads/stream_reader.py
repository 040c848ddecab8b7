"""A streaming read on the driver: the end of each micro-batch, and its ranges for executors.

The offsets in Spark's checkpoint have the form of Spark's own connector.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.error_messages import hide_tracebacks
from qanat.spark.offsets import OffsetRange, Offsets, from_json, lag, ranges, split, to_json
from qanat.spark.options.options import SourceOptions
from qanat.spark.reads.batch_reader import RangePartition
from qanat.spark.reads.data_loss import DataLossError, recreated, within, without_lost
from qanat.spark.reads.offset_lookup import Lookups
from qanat.spark.reads.pace import Pace
from qanat.spark.reads.trigger_rows import cut_by_rows

_log = logging.getLogger(__name__)
_CHECKPOINT = "the checkpoint"


class WrongCheckpointError(QanatError):
    """The checkpoint of a query on other topics."""


@hide_tracebacks
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._open_lookups: Lookups | None = None
        self._target: Offsets | None = None
        """The end of a query with trigger(availableNow=True)."""
        self._triggered_at = time.monotonic()
        self._shown: Offsets | None = None
        """The offsets last committed for the group that shows the progress, or the query's start."""
        target_s = options.target_batch_time_s
        self._pace = Pace(target_s) if target_s is not None else None

    def __getstate__(self) -> dict[str, Any]:
        """The state that executors get, without the connection."""
        return {**self.__dict__, "_open_lookups": None}

    @property
    def _lookups(self) -> Lookups:
        if self._open_lookups is None:
            self._open_lookups = Lookups(self._options.access, is_committed_only=self._options.is_committed_only)
        return self._open_lookups

    # Called by Spark's engine on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        options = self._options
        chosen = self._lookups.partitions(options.subscription)
        start = self._lookups.at(options.start, chosen, options.group, "startingOffsets")
        if options.start.kind in ("offsets", "group"):
            start = within(start, self._lookups.latest(chosen), "startingOffsets", options.fail_on_data_loss)
        self._shown = start
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._latest())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        done = from_json(start, _CHECKPOINT)
        begin = self._begin(done)
        # Spark plans a micro-batch when the one before is in its checkpoint, and calls `commit` only for a new one:
        # a query that has caught up would show its last micro-batch as lag.
        self._show(done)
        end = self._latest() if self._target is None else self._target
        self._check_going_on(begin, end)
        if not isinstance(limit, ReadAllAvailable):
            if self._is_too_little(lag(begin, end)):
                return start
            end = self._limited(begin, end)
        self._triggered_at = time.monotonic()
        return to_json(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        last = from_json(end, _CHECKPOINT)
        begin = self._begin(from_json(start, _CHECKPOINT), known=last)
        begin = {**begin, **self._lookups.earliest(at for at in begin if last.get(at, begin[at]) < begin[at])}
        wanted = ranges(begin, last)
        earliest = self._lookups.earliest(one.at for one in wanted)
        existing = without_lost(wanted, earliest, self._options.fail_on_data_loss)
        options = self._options
        return [
            RangePartition(one) for one in split(existing, options.min_partitions, options.max_records_per_partition)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        self._show(from_json(end, _CHECKPOINT))

    def stop(self) -> None:
        if self._open_lookups is not None:
            self._open_lookups.close()
            self._open_lookups = None

    # Called on an executor

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from qanat.spark.reads.range_reader import (
            read_range,  # Only executors need it; it is slow to import.
        )

        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition.wanted, self._schema)

    # The end of a micro-batch

    def _show(self, done: Offsets) -> None:
        """Commit the query's progress for its group, so that tools show its lag."""
        group = self._options.group
        if group is None or done == self._shown:
            return
        try:
            self._lookups.commit(group, done)
        except QanatError as fault:
            # Only the checkpoint matters; the group is for display.
            _log.warning("progress is not shown in group %s: %s", group, fault)
        self._shown = done

    def _latest(self) -> Offsets:
        return self._lookups.latest(self._there())

    def _there(self) -> list[TopicPartition]:
        """The partitions that exist now; a deleted topic is an error only with failOnDataLoss."""
        options = self._options
        return self._lookups.partitions(options.subscription, may_be_gone=not options.fail_on_data_loss)

    def _begin(self, start: Offsets, known: Offsets | None = None) -> Offsets:
        """The start, with partitions that were added since, from their first record."""
        chosen = known if known is not None else self._there()
        others = sorted(at for at in start if not self._options.subscription.takes(at))
        if others:
            raise WrongCheckpointError(
                f"the checkpoint belongs to a query that read {', '.join(map(str, others))}; this one reads "
                f"{self._options.subscription}: give it a checkpointLocation of its own"
            )
        gone = sorted(set(start) - set(chosen))
        if gone:
            self._lose(f"partitions that the query was reading do not exist any more: {', '.join(map(str, gone))}")
        added = [at for at in chosen if at not in start]
        return {**{at: offset for at, offset in start.items() if at not in gone}, **self._lookups.earliest(added)}

    def _check_going_on(self, begin: Offsets, end: Offsets) -> None:
        """Report partitions that end before the query's position: their topic was recreated."""
        back = [OffsetRange(at, end[at], begin[at]) for at in sorted(begin) if at in end and end[at] < begin[at]]
        if back:
            self._lose(recreated(back))

    def _lose(self, report: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(report)
        _log.warning("%s", report)

    def _is_too_little(self, rows: int) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or rows >= least:
            return False
        return time.monotonic() - self._triggered_at < self._options.max_trigger_delay_s

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        """The end moved back to the limits, or to the share of them that takes about the target time."""
        most_rows, most_bytes = self._options.max_offsets_per_trigger, self._options.max_bytes_per_trigger
        if self._pace is None:
            return self._within(begin, end, most_rows, most_bytes)
        self._pace.begin(time.monotonic())
        if most_bytes is not None:
            most_bytes = self._pace.of(most_bytes)
        elif most_rows is not None:
            most_rows = self._pace.of(most_rows)
        found = self._within(begin, end, most_rows, most_bytes)
        self._pace.end(time.monotonic(), is_cut=found != end)
        return found

    def _within(self, begin: Offsets, end: Offsets, most_rows: int | None, most_bytes: int | None) -> Offsets:
        if most_rows is not None:
            end = cut_by_rows(begin, end, most_rows)
        if most_bytes is not None and not self._is_all_small(begin, end, most_bytes):
            end = self._lookups.cut_by_bytes(begin, end, most_bytes)
        return end

    def _is_all_small(self, begin: Offsets, end: Offsets, most_bytes: int) -> bool:
        """Whether the whole logs fit into a micro-batch, so that no bytes need to be counted."""
        places = [one.at for one in ranges(begin, end)]
        sizes = self._lookups.bytes_of(places)
        return len(sizes) == len(places) and sum(sizes.values()) <= most_bytes


@hide_tracebacks
class RefusedStream(DataSourceStreamReader):
    """A stream with wrong options: Spark loses errors of a reader's constructor, so the methods raise them."""

    def __init__(self, fault: QanatError) -> None:
        self._fault = fault

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        raise self._fault

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        raise self._fault

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        raise self._fault

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._fault
