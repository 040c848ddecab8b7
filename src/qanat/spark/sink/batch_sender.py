"""Batch sender: rounds of record batches, one per partition, the next encoded while others are in flight.

With uvloop nothing is copied on the way to the socket; asyncio's own loop joins buffers. All rounds of a task are one
run of the event loop, which pauses while the next round is encoded: a run per round cost a tenth of a task's time, as
measured.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import TYPE_CHECKING, TypeVar

from qanat.connection.batch_producer import TURNS_TO_SOCKET, BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.faults import RefusedError
from qanat.connection.pipelined_producer import ACKS_ALL
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.reads.offset_lookup import cluster_of, loop_factory
from qanat.spark.sink.outgoing_columns import EncodedBatch, RowsError
from qanat.wire.batch_header import read_header

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

    from qanat.spark.sink.local_ingest import LocalIngestFiles
    from qanat.spark.sink.row_batches import Encoder

Result = TypeVar("Result")

_log = logging.getLogger(__name__)

ROUND_BYTES = 2_000_000
"""A larger request has less overhead; a broker receives one above this size in fresh memory (`wire.frames`)."""
IN_FLIGHT_MAX = 2
"""Rounds in flight at one time, if they have no partition in common."""
REACH_TIMEOUT_S = 15.0
"""How long a task retries a cluster that it has not reached yet: long enough for a restart."""
_NOT_INGESTED = ErrorCode.RESOURCE_NOT_FOUND
"""The error of a broker that does not have a file, or cannot ingest it."""
_UNKNOWN = ErrorCode.INVALID_RECORD
"""The error of a broker that is too old to ingest files."""


class Rounds:
    """Collects batches until one would be a partition's second, or the round is large enough.

    Half of the partitions are enough: the next round is for the others then, and need not wait for this one.
    """

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, EncodedBatch] = {}
        self._size = 0
        self._partitions: set[TopicPartition] = set()
        """Partitions seen so far."""

    def full_before(self, batch: EncodedBatch) -> dict[TopicPartition, EncodedBatch] | None:
        """Add a batch; returns the round that must be sent before it, if any."""
        finished = None
        self._partitions.add(batch.at)
        is_enough = self._size + len(batch.batch) > ROUND_BYTES or 2 * len(self._batches) >= len(self._partitions)
        if batch.at in self._batches or is_enough:
            finished = self.rest()
        self._batches[batch.at] = batch
        self._size += len(batch.batch)
        return finished

    def rest(self) -> dict[TopicPartition, EncodedBatch]:
        finished, self._batches, self._size = self._batches, {}, 0
        return finished


class Sender:
    """Sends batches for a caller without an event loop. Use it in a `with`."""

    def __init__(self, access: Access, reach_timeout_s: float = REACH_TIMEOUT_S) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._cluster = cluster_of(access, reach_timeout_s)
        self._in_flight: list[tuple[set[TopicPartition], asyncio.Task[None]]] = []
        self.producer: BatchProducer | None = None
        """The idempotent or transactional producer; None for batches without sequence numbers."""
        self._plain: BatchProducer | None = None
        self.acks = ACKS_ALL
        self.sent_bytes = 0
        """Bytes of batches, and of names in place of them."""
        self.landed: dict[TopicPartition, list[tuple[int, int]]] | None = None
        """The base offset and the rows of a producer's batches and files, in the order in which they were sent, if a
        caller wants them."""

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        async def close() -> None:
            for _, in_flight in self._in_flight:
                in_flight.cancel()
            await asyncio.gather(*(in_flight for _, in_flight in self._in_flight), return_exceptions=True)
            await self._cluster.__aexit__(None, None, None)

        self._runner.run(close())
        self._runner.close()

    def init_idempotent(self) -> None:
        self.producer = self._runner.run(BatchProducer.idempotent(self._cluster, self._cluster.deadline()))

    def init_transactional(self, transactional_id: str, timeout_ms: int) -> BatchProducer:
        found = self._runner.run(
            BatchProducer.transactional(self._cluster, transactional_id, timeout_ms, self._cluster.deadline())
        )
        self.producer = found
        return found

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on this connection's loop."""
        return self._runner.run(work)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    async def prepare(self, encoder: Encoder, rows: RecordBatch) -> None:
        """Look up the partition counts of these rows' topics for an encoder.

        A topic is created if the brokers create topics on first use.
        """
        for topic in encoder.unknown_topics(rows):
            view = await self._cluster.topic(topic, self._cluster.deadline(), may_create=True)
            encoder.set_partition_count(topic, len(view.leaders))

    def send_rows(self, rows: Iterable[RecordBatch], encoder: Encoder, local_files: LocalIngestFiles) -> int:
        """Encode and send in order and wait for all; returns the number of rows.

        Files beside local brokers are named to them at the end.
        """

        async def encoded() -> AsyncIterator[EncodedBatch]:
            for some in rows:
                await self.prepare(encoder, some)
                for batch in encoder.encode(some):
                    if not local_files.knows(batch.at):
                        await local_files.find(batch.at)
                    if not local_files.take(batch):
                        yield batch
            for file in local_files.close():
                for batch in file.batches():
                    yield batch

        return self._runner.run(self._send_each(encoded()))

    def send_all(self, batches: Iterable[EncodedBatch]) -> int:
        """The same with batches that are encoded already."""

        async def each() -> AsyncIterator[EncodedBatch]:
            for batch in batches:
                yield batch

        return self._runner.run(self._send_each(each()))

    async def _send_each(self, batches: AsyncIterator[EncodedBatch]) -> int:
        """Send every batch; after an error, nothing stays in flight."""
        rounds, rows = Rounds(), 0
        try:
            async for batch in batches:
                rows += batch.rows
                self.sent_bytes += len(batch.batch)
                finished = rounds.full_before(batch)
                if finished:
                    await self._launch(finished)
            await self._launch(rounds.rest())
            await self._await_oldest(len(self._in_flight))
        finally:
            await self._settle()
        return rows

    async def _launch(self, batches: dict[TopicPartition, EncodedBatch]) -> None:
        conflicting = [number for number, (some, _) in enumerate(self._in_flight, 1) if not some.isdisjoint(batches)]
        await self._await_oldest(max(0, len(self._in_flight) + 1 - IN_FLIGHT_MAX, *conflicting))
        self._in_flight.append((set(batches), asyncio.create_task(self._send(batches))))
        # Let it reach the socket; the response is awaited when the next round is ready.
        for _ in range(TURNS_TO_SOCKET):
            await asyncio.sleep(0)

    async def _await_oldest(self, count: int) -> None:
        """Wait for the oldest rounds in flight."""
        for _ in range(count):
            _, in_flight = self._in_flight.pop(0)
            await in_flight

    async def _settle(self) -> None:
        """Wait for rounds still in flight after an error: no write may arrive after the abort."""
        in_flight, self._in_flight = self._in_flight, []
        await asyncio.gather(*(one for _, one in in_flight), return_exceptions=True)

    async def _send(self, batches: dict[TopicPartition, EncodedBatch]) -> None:
        topics: dict[str, dict[int, bytearray | memoryview]] = {}
        for at, one in batches.items():
            if one.fallback is None:
                topics.setdefault(at.topic, {})[at.partition] = one.batch
        try:
            for topic, some in topics.items():
                await self._send_topic(topic, some)
            # At the same time: the broker ingests them in several workers.
            await asyncio.gather(*(self._send_file(one) for one in batches.values() if one.fallback is not None))
        except RefusedError as fault:
            if fault.code == ErrorCode.CORRUPT_MESSAGE:
                raise CorruptBatchError(f"staged rows were changed since they were encoded: {fault}") from None
            if fault.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            raise RowsError(
                f"{fault}; a smaller kafka.batch.size helps where many rows are too large together, a larger "
                "max.message.bytes of the topic where one row is"
            ) from None

    async def _send_file(self, one: EncodedBatch) -> None:
        """Name a file to its broker; if the broker cannot ingest it, send its batches."""
        try:
            await self._send_topic(one.at.topic, {one.at.partition: one.batch})
        except RefusedError as fault:
            is_unknown = fault.code == _UNKNOWN and one.may_be_unknown
            if one.fallback is None or not (fault.code == _NOT_INGESTED or is_unknown):
                raise
            _log.info("%s is sent: %s", one.at, fault)
            for batch in one.fallback():
                self.sent_bytes += len(batch.batch)
                await self._send_topic(one.at.topic, {one.at.partition: batch.batch})

    async def _send_topic(self, topic: str, batches: dict[int, bytearray | memoryview]) -> None:
        producer = self.producer
        if producer is None:
            producer = self._plain = self._plain or BatchProducer(self._cluster, acks=self.acks)
        landed = await producer.send(topic, batches, self._cluster.deadline())
        if self.landed is not None:
            for number, offset in landed.items():
                rows = read_header(batches[number]).record_count
                self.landed.setdefault(TopicPartition(topic, number), []).append((offset, rows))
