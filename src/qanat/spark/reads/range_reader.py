"""Range reader: an executor fetches the batches of an offset range ahead and decodes them into Arrow.

Rule 1: one fetch is in flight while the last one is decoded, and no more, so that memory stays at a few times
        `fetch_bytes` for any length of the range.
Rule 2: offsets may be missing (compaction, markers, aborted transactions). The end is reached by position, not count.
Rule 3: a leader that moves or restarts costs a retry; a broker that is away for longer than the timeout fails the task,
        and Spark runs it elsewhere. The driver has reached the cluster, so a task retries until it does, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, refused
from qanat.connection.fetching import INFLATED_BYTES_MAX, FetchLimits, fetch_batches, marked_batches
from qanat.model.error_codes import ErrorCode
from qanat.spark import arrow
from qanat.spark.formats.decoding import decoder
from qanat.spark.formats.poison import ValueReader
from qanat.spark.offsets import OffsetRange
from qanat.spark.options.options import SourceOptions
from qanat.spark.reads.data_loss import DataLossError, lost
from qanat.spark.reads.offset_lookup import cluster_of, loop_factory
from qanat.spark.worker_memory import retain_memory
from qanat.wire.batch_header import BatchHeader
from qanat.wire.column_layout import Columns
from qanat.wire.columns import decode_columns
from qanat.wire.kafka.messages.fetch import PartitionData

_log = logging.getLogger(__name__)

ROWS_AT_ONCE = 1 << 17
BYTES_AT_ONCE = 16 * 1024 * 1024
"""The size of one Arrow batch; a compressed byte counts for several."""
_INFLATION = 6
_WAIT_MS = 500


@dataclass(slots=True)
class _Run:
    """Batches that are decoded together: of one timestamp type, of bounded size."""

    is_append_time: bool
    batches: list[memoryview] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def takes(self, header: BatchHeader) -> bool:
        is_alike = header.is_log_append_time == self.is_append_time
        return is_alike and self.rows < ROWS_AT_ONCE and self.size < BYTES_AT_ONCE

    def add(self, batch: memoryview, header: BatchHeader) -> None:
        self.batches.append(batch)
        self.rows += header.record_count
        self.size += len(batch) * (_INFLATION if header.codec else 1)


def read_range(options: SourceOptions, wanted: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow batches in the source's `schema`."""
    retain_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        fetches = _Fetches(options, wanted)
        same = _Same(wanted)
        values = _value_reader(options, schema)
        try:
            while (data := runner.run(fetches.next())) is not None:
                for run in _runs(data, fetches.first, wanted.end):
                    columns = decode_columns(
                        run.batches, limit_bytes=INFLATED_BYTES_MAX, first_offset=fetches.first, end_offset=wanted.end
                    )
                    if len(columns):
                        yield _record_batch(columns, same, run.is_append_time, schema, values)
        finally:
            runner.run(fetches.close())


def _runs(data: PartitionData, first: int, end: int) -> Iterator[_Run]:
    run: _Run | None = None
    for batch, header, is_visible in marked_batches(data):
        if not is_visible or header.next_offset <= first or header.base_offset >= end:
            continue
        if run is not None and not run.takes(header):
            yield run
            run = None
        run = run or _Run(header.is_log_append_time)
        run.add(batch, header)
    if run is not None:
        yield run


def _value_reader(options: SourceOptions, schema: pa.Schema) -> ValueReader | None:
    form = options.value
    if form is None:
        return None
    return ValueReader(decoder(form, schema.field("value").type), form.format, form.mode)


class _Same:
    """Columns with the same value in all rows of a range."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.at = wanted.at
        self.topic = arrow.Repeated(wanted.at.topic, pa.string())
        self.partition = arrow.Repeated(wanted.at.partition, pa.int32())
        self.timestamp_types = [arrow.Repeated(number, pa.int32()) for number in range(2)]


def _record_batch(
    columns: Columns, same: _Same, is_append_time: bool, schema: pa.Schema, values: ValueReader | None
) -> pa.RecordBatch:
    rows = len(columns)
    made = {
        "key": arrow.binary(columns.keys, rows),
        "value": arrow.binary(columns.values, rows),
        "topic": same.topic.rows(rows),
        "partition": same.partition.rows(rows),
        "offset": arrow.offsets(columns),
        "timestamp": arrow.timestamps(columns),
        "timestampType": same.timestamp_types[is_append_time].rows(rows),
    }
    if "headers" in schema.names:
        made["headers"] = arrow.headers(columns).cast(schema.field("headers").type)
    stays = None
    if values is not None:
        typed, malformed, stays = values.read(made["value"], made["offset"], same.at)
        made["value"] = typed.cast(schema.field("value").type)
        if "malformed" in schema.names:
            made["malformed"] = malformed.cast(schema.field("malformed").type)
    batch = pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)
    return batch if stays is None else batch.filter(stays)


class _Fetches:
    """The fetch responses of a range, one after the other, with one fetch ahead."""

    def __init__(self, options: SourceOptions, wanted: OffsetRange) -> None:
        self._options = options
        self._wanted = wanted
        self._cluster: Cluster = cluster_of(options.access, options.access.timeout_s)
        self._position = wanted.start
        self._ahead: asyncio.Task[PartitionData] | None = None
        self._limits = FetchLimits(
            max_wait_ms=_WAIT_MS,
            max_bytes=options.fetch_bytes,
            partition_bytes=options.fetch_bytes,
            is_committed_only=options.is_committed_only,
        )
        self.first = wanted.start
        """The first offset of the range that is still to be decoded."""

    async def next(self) -> PartitionData | None:
        """The next response, or None at the end of the range."""
        if self._ahead is None:
            if self._position >= self._wanted.end:
                return None
            self._ahead = asyncio.create_task(self._fetch(self._position))
        self.first = self._position
        data = await self._ahead
        self.first = max(self.first, self._position)
        self._ahead = None
        for _, header, _ in marked_batches(data):
            self._position = max(self._position, header.next_offset)
        if self._position < self._wanted.end:
            self._ahead = asyncio.create_task(self._fetch(self._position))
            # Let it be sent; the response collects in the socket while the caller works.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return data

    async def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        await self._cluster.__aexit__(None, None, None)

    async def _fetch(self, position: int) -> PartitionData:
        """Fetch until records arrive; the range was planned from existing offsets, so they will."""
        deadline = self._cluster.deadline()
        at = self._wanted.at
        while True:
            data = await self._cluster.persist(partial(self._fetch_once, position, deadline), deadline)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                position = self._skip_lost(position, data.log_start_offset)
                if position >= self._wanted.end:
                    return PartitionData(at.partition)
                continue
            if any(True for _ in marked_batches(data)):
                return data
            if deadline.is_over:
                raise OutOfTimeError(
                    f"offsets {position} to {self._wanted.end} of {at} did not arrive in {self._cluster.timeout_s:g} s"
                )

    async def _fetch_once(self, position: int, deadline: Deadline) -> PartitionData:
        at = self._wanted.at
        view = await self._cluster.known_topic(at.topic, deadline)
        leader = view.leaders.get(at.partition, -1)
        link = await self._cluster.node_link(leader, deadline)
        (data,) = await fetch_batches(link, at.topic, {at.partition: position}, self._limits, deadline)
        if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            raise refused(f"fetch of {at} from {link.address}", data.error_code)
        return data

    def _skip_lost(self, position: int, log_start: int) -> int:
        """The offset where the log continues, if lost records are acceptable."""
        is_before_start = log_start >= 0 and position < log_start
        goes_on = min(log_start, self._wanted.end) if is_before_start else self._wanted.end
        loss = lost([OffsetRange(self._wanted.at, position, goes_on)])
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        _log.warning("%s", loss)
        self._position = goes_on
        return goes_on
