"""Remote ingest: a task uploads batches to the leaders of their partitions, which store them until they are named.

The driver names the files in its transaction, and the brokers append them or make them segments. So rows reach the
brokers once, from the executors; only names pass through the driver. See docs/decisions/0015-staged-uploads.md.

Chunks of a file are sent one after another, those of several files at the same time, while the next rows are encoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn
from uuid import uuid4

from qanat.connection.batch_producer import TURNS_TO_SOCKET, BatchProducer, produce
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.pipelined_producer import ACKS_ALL
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.sink.outgoing_columns import EncodedBatch
from qanat.wire.staged import BATCHES_MAX, FEATURE, FILE_BYTES_MAX, hide, staged_batch
from qanat.wire.staged_upload import DROPPED, upload_batch

CHUNK_BYTES = 1_900_000
"""A broker receives a request of more than 2 MB in fresh memory (`wire.frames`)."""
WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Bytes that wait for their chunk to be full, over all partitions of a task."""
IN_FLIGHT_MAX = 4
_ASKED_S = 5.0
"""Time limit for questions and for deleting: without an answer, rows pass through the driver, and files expire."""


class LostRowsError(QanatError):
    """Staged rows that are not where they are needed: the write fails, and is repeated from its input."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """Batches of one partition, in a file of the broker that led it."""

    topic: str
    partition: int
    name: str
    rows: int
    size: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def batches(self) -> Iterator[EncodedBatch]:
        """What to send for the file: its name."""
        yield EncodedBatch(self.at, staged_batch(self.name, self.rows), self.rows, self._lost)

    def _lost(self) -> NoReturn:
        raise LostRowsError(
            f"rows of this batch for {self.at} are not at its leader: it moved to another broker after they were "
            "uploaded, or they expired there (log.staging.retention.ms). Nothing of the batch is visible; start the "
            "query again, and it is written as a whole. remoteIngest=false sends rows through the driver instead"
        )


class RemoteIngest:
    """The uploads of one task. `close` them at the end, or `drop` them."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self._cluster = cluster
        self._producer = BatchProducer(cluster)
        self._folder = folder
        self._is_taken: dict[TopicPartition, bool] = {}
        """Whether the leader of a partition takes uploads."""
        self._uploads: dict[TopicPartition, _Upload] = {}
        self._files: list[RemoteFile] = []
        self._waiting_bytes = 0
        self._in_flight: dict[TopicPartition, asyncio.Task[object]] = {}
        """Chunks on their way, the oldest first."""

    async def take(self, one: EncodedBatch) -> bool:
        """Upload a batch; False where the leader of its partition takes no uploads."""
        if one.at not in self._is_taken:
            self._is_taken[one.at] = await self._takes_uploads(one.at)
        if not self._is_taken[one.at]:
            return False
        size = len(one.batch)
        upload = self._uploads.get(one.at)
        if upload is not None and not upload.has_room(size):
            await self._finish(upload)
            upload = None
        if upload is None:
            upload = self._uploads[one.at] = _Upload(one.at, f"{self._folder}/{uuid4().hex}")
        elif upload.waiting_bytes + size > CHUNK_BYTES:
            await self._launch(upload)
        upload.add(one)
        self._waiting_bytes += size
        if self._waiting_bytes > WAITING_BYTES_MAX:
            for other in list(self._uploads.values()):
                await self._launch(other)
        return True

    async def close(self) -> tuple[RemoteFile, ...]:
        """Upload the rest; returns all files, those of a partition in order."""
        for upload in list(self._uploads.values()):
            await self._finish(upload)
        for at in list(self._in_flight):
            await self._arrived(at)
        return tuple(self._files)

    async def drop(self) -> None:
        """Delete what was uploaded, as far as brokers can be reached; the rest expires there."""
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        self._in_flight.clear()
        self._files += [upload.file() for upload in self._uploads.values()]
        await drop_files(self._cluster, self._files)

    async def _takes_uploads(self, at: TopicPartition) -> bool:
        deadline = Deadline.after(_ASKED_S)
        try:
            leader = (await self._cluster.known_topic(at.topic, deadline)).leaders[at.partition]
            return (await self._cluster.node_link(leader, deadline)).features.get(FEATURE, 0) > 0
        except QanatError:
            return False

    async def _finish(self, upload: _Upload) -> None:
        await self._launch(upload)
        del self._uploads[upload.at]
        self._files.append(upload.file())

    async def _launch(self, upload: _Upload) -> None:
        """Send the waiting batches as chunks, the last of which stays in flight."""
        if not upload.waiting:
            return
        self._waiting_bytes -= upload.waiting_bytes
        for chunk in upload.chunks():
            await self._arrived(upload.at)
            while len(self._in_flight) >= IN_FLIGHT_MAX:
                await self._arrived(next(iter(self._in_flight)))
            self._in_flight[upload.at] = asyncio.create_task(self._send(upload.at, chunk))
            # Let it reach the socket; the response is awaited when the next chunk is ready.
            for _ in range(TURNS_TO_SOCKET):
                await asyncio.sleep(0)

    async def _arrived(self, at: TopicPartition) -> None:
        """Wait for the chunk of a partition that is in flight, if there is one."""
        if (in_flight := self._in_flight.pop(at, None)) is not None:
            await in_flight

    async def _send(self, at: TopicPartition, chunk: bytearray) -> None:
        try:
            await self._producer.send(at.topic, {at.partition: chunk}, self._cluster.deadline())
        except RefusedError as fault:
            if fault.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            raise LostRowsError(
                f"the leader of {at} moved to another broker while rows were uploaded to it: the task fails, and Spark "
                f"repeats it unless that was its last attempt ({fault})"
            ) from None


async def drop_files(cluster: Cluster, files: Iterable[RemoteFile]) -> None:
    """Delete files that no transaction takes, as far as brokers can be reached; the rest expires there."""
    deadline = Deadline.after(_ASKED_S)

    async def drop(one: RemoteFile) -> None:
        with suppress(QanatError):
            batch = upload_batch(one.name, DROPPED)
            await produce(cluster, one.topic, {one.partition: batch}, ACKS_ALL, deadline)

    await asyncio.gather(*map(drop, files))


class _Upload:
    """A file that is being uploaded."""

    def __init__(self, at: TopicPartition, name: str) -> None:
        self.at = at
        self._name = name
        self._rows = self._batches = 0
        self._sent_bytes = 0
        self.waiting: list[bytearray | memoryview] = []
        self.waiting_bytes = 0

    def has_room(self, size: int) -> bool:
        return self._sent_bytes + self.waiting_bytes + size <= FILE_BYTES_MAX and self._batches < BATCHES_MAX

    def add(self, one: EncodedBatch) -> None:
        hide(one.batch)
        self.waiting.append(one.batch)
        self.waiting_bytes += len(one.batch)
        self._rows += one.rows
        self._batches += 1

    def chunks(self) -> Iterator[bytearray]:
        """What to send for the waiting batches: mostly one chunk."""
        pieces, self.waiting, self.waiting_bytes = self.waiting, [], 0
        if len(pieces) > 1 or len(pieces[0]) <= CHUNK_BYTES:
            yield self._chunk(pieces)
            return
        whole = memoryview(pieces[0])
        for at in range(0, len(whole), CHUNK_BYTES):
            yield self._chunk([whole[at : at + CHUNK_BYTES]])

    def _chunk(self, pieces: list[bytearray | memoryview]) -> bytearray:
        chunk = upload_batch(self._name, self._sent_bytes, pieces)
        self._sent_bytes += sum(map(len, pieces))
        return chunk

    def file(self) -> RemoteFile:
        return RemoteFile(self.at.topic, self.at.partition, self._name, self._rows, self._sent_bytes)
