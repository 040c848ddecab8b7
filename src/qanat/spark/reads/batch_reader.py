"""A batch read: everything between two bounds, split into ranges for the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from qanat.model.ids import TopicPartition
from qanat.spark.error_messages import hide_tracebacks
from qanat.spark.offsets import OffsetRange, ranges, split
from qanat.spark.options.options import SourceOptions
from qanat.spark.reads.data_loss import within, without_lost
from qanat.spark.reads.filter_pushdown import PushedFilters
from qanat.spark.reads.offset_lookup import Lookups


class RangePartition(InputPartition):
    """The range that one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(str(wanted))
        self.wanted = wanted


@hide_tracebacks
class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with Lookups(options.access, is_committed_only=options.is_committed_only) as lookups:
            chosen = [at for at in lookups.partitions(options.subscription) if self._pushed.takes(at)]
            start = lookups.at(options.start, chosen, options.group, "startingOffsets")
            end = lookups.at(options.end, chosen, options.group, "endingOffsets")
            if {"offsets", "group"} & {options.start.kind, options.end.kind}:
                latest = lookups.latest(chosen)
                start = within(start, latest, "startingOffsets", options.fail_on_data_loss)
                end = within(end, latest, "endingOffsets", options.fail_on_data_loss)
            wanted = self._pushed.ranges(ranges(start, end), lookups)
            existing = without_lost(wanted, lookups.earliest(one.at for one in wanted), options.fail_on_data_loss)
        pieces = split(existing, options.min_partitions, options.max_records_per_partition)
        # Spark takes an empty list for one partition, of None; an empty range is explicit.
        return [RangePartition(one) for one in pieces] or [RangePartition(OffsetRange(TopicPartition("", 0), 0, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from qanat.spark.reads.range_reader import (
            read_range,  # Only executors need it; it is slow to import.
        )

        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition.wanted, self._schema)


@hide_tracebacks
class FilteringBatchReader(BatchReader):
    """Skips records for which filters on partition, offset and timestamp are false; Spark still evaluates them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for one in filters:
            self._push(one)
        return filters

    def _push(self, one: Filter) -> None:
        column = getattr(one, "attribute", ())
        if column == ("topic",) or column == ("partition",):
            self._pushed.only(column[0], _values(one))
        elif column == ("offset",):
            first, end = _bounds(one)
            self._pushed.between(first, end)
        elif column == ("timestamp",):
            self._pushed.since(_earliest_ms(one))


def _values(one: Filter) -> Sequence[object] | None:
    match one:
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return [value]
        case In(_, values):
            return list(values)
    return None


def _bounds(one: Filter) -> tuple[int | None, int | None]:
    """First and end of the offsets for which a comparison can be true."""
    match one:
        case EqualTo(_, int(value)) | EqualNullSafe(_, int(value)):
            return value, value + 1
        case GreaterThan(_, int(value)):
            return value + 1, None
        case GreaterThanOrEqual(_, int(value)):
            return value, None
        case LessThan(_, int(value)):
            return None, value
        case LessThanOrEqual(_, int(value)):
            return None, value + 1
    return None, None


def _earliest_ms(one: Filter) -> int | None:
    """The first millisecond for which a comparison can be true; Spark's times without a zone are UTC."""
    if not isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
        return None
    if not isinstance(one.value, datetime):
        return None
    timestamp = one.value if one.value.tzinfo is not None else one.value.replace(tzinfo=UTC)
    return (timestamp - _EPOCH) // timedelta(milliseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
