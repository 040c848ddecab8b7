"""Row staging: where the encoded rows of one task wait for their transaction.

The rows of a small task are in its message to the driver. Those of others are in files: beside a broker on this machine
(`local_ingest`), at the leader of their partition (`remote_ingest`), or in a folder that the driver reads (`staging`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qanat.spark.sink.staging import INLINE_BYTES, Staged, StageWriter

if TYPE_CHECKING:
    from qanat.model.ids import TopicPartition
    from qanat.spark.sink.local_ingest import LocalIngestFiles
    from qanat.spark.sink.outgoing_columns import EncodedBatch
    from qanat.spark.sink.remote_ingest import RemoteIngest

PARTITION_BYTES_MIN = 64 * 1024
"""Bytes of a task for each of its partitions from which files are worth their requests."""


class RowStaging:
    """The staged rows of one task. `close` it at the end, or `drop` it."""

    def __init__(
        self, writer: StageWriter, local_files: LocalIngestFiles | None, remote_ingest: RemoteIngest | None
    ) -> None:
        self._writer = writer
        self._local_files = local_files
        self._remote_ingest = remote_ingest
        self._held: list[EncodedBatch] | None = []
        """The first batches, until there are too many for the task's message."""
        self._held_bytes = 0
        self._partitions: set[TopicPartition] = set()

    async def add(self, one: EncodedBatch) -> None:
        if self._held is None:
            await self._route(one)
            return
        self._held.append(one)
        self._held_bytes += len(one.batch)
        self._partitions.add(one.at)
        if self._held_bytes > min(INLINE_BYTES, PARTITION_BYTES_MIN * len(self._partitions)):
            held, self._held = self._held, None
            for each in held:
                await self._route(each)

    async def _route(self, one: EncodedBatch) -> None:
        local_files = self._local_files
        if local_files is not None:
            if not local_files.knows(one.at):
                await local_files.find(one.at)
            if local_files.take(one):
                return
        if self._remote_ingest is None or not await self._remote_ingest.take(one):
            self._writer.add(one)

    async def close(self) -> Staged:
        for one in self._held or ():
            self._writer.add(one)
        staged = self._writer.close()
        local_files = self._local_files.close() if self._local_files is not None else ()
        remote_files = await self._remote_ingest.close() if self._remote_ingest is not None else ()
        return replace(staged, local_files=local_files, remote_files=remote_files)

    async def drop(self) -> None:
        """Delete the files of a task that failed, as far as they are its own."""
        if self._local_files is not None:
            self._local_files.drop()
        if self._remote_ingest is not None:
            await self._remote_ingest.drop()
