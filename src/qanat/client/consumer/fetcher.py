"""The fetcher: keeps the buffer filled, one fetch at a time from each broker, on the I/O loop.

A broker's next fetch is sent as soon as its last answer is in the buffer, while the user works. A partition with enough
in the buffer is left out; when all is full, nothing is fetched until the user takes something.

Rule 1: answers to questions of an older token are dropped.
Rule 2: large compressed batches are opened in a worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from qanat.client.consumer.assigned_partition import AssignedPartition, Chunk
from qanat.client.consumer.record_buffer import RecordBuffer
from qanat.client.consumer.settings import ConsumerSettings
from qanat.connection.cluster import Cluster
from qanat.connection.consuming.fetch_sessions import BY_NAME_AT_MOST, FetchSession, FetchTerms, Wanted
from qanat.connection.consuming.partition_cursor import Need
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.fetching import marked_batches
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.fetch import FetchResponse, PartitionData
from qanat.wire.kafka.registry import ApiKey

_log = logging.getLogger("qanat.client")
_CHUNK_BYTES = 64 * 1024
"""Batches are joined up to so much, to be decoded together."""
_LARGE_BYTES = 64 * 1024
"""From this size on, compressed batches are opened in a worker."""
_SHORT_WAIT_MS = 100
"""How long a broker may wait while partitions with enough in the buffer are left out."""
_PAUSE_S = 0.2
_BUFFERED_FETCHES = 2
"""How many fetches of a partition may be in the buffer before it is left out."""


class Fetcher:
    """Fetches for all partitions of a buffer."""

    def __init__(
        self,
        cluster: Cluster,
        buffer: RecordBuffer,
        settings: ConsumerSettings,
        report: Callable[[AssignedPartition, str], None],
    ) -> None:
        """`report` hears of offsets that are gone."""
        self._cluster = cluster
        self._buffer = buffer
        self._settings = settings
        self._report = report
        self._sessions: dict[int, tuple[Link, FetchSession]] = {}
        self._busy: dict[int, asyncio.Task[None]] = {}
        self.is_raw = False
        """Whether batches stay as they are: for readers of columns."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after an answer: cursors may need something else now."""

    def start_fetches(self) -> None:
        """Begin a fetch from every broker that has something for us and is not asked already."""
        nodes: dict[int, list[AssignedPartition]] = {}
        is_short = False
        enough = max(1, self._settings.max_partition_fetch_bytes) * _BUFFERED_FETCHES
        is_full = self._buffer.buffered_bytes >= self._buffer.limit_bytes
        self._buffer.is_waiting_for_room = is_full
        for one in self._buffer.partitions.values():
            if one.is_live and one.cursor.need is Need.FETCH:
                if is_full or one.buffered_bytes >= enough:
                    is_short = self._buffer.is_waiting_for_room = True
                else:
                    nodes.setdefault(one.replica if one.replica >= 0 else one.cursor.leader, []).append(one)
        for node, some in nodes.items():
            if node not in self._busy:
                self._busy[node] = asyncio.create_task(self._fetch(node, some, is_short))

    async def close(self) -> None:
        busy = list(self._busy.values())
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy)

    async def _fetch(self, node: int, partitions: list[AssignedPartition], is_short: bool) -> None:
        asked = {one.at: (one, one.cursor.token, one.token, one.cursor.offset) for one in partitions}
        try:
            response, session = await self._request(node, partitions, is_short)
            if response is None:
                return
            for topic in response.responses:
                name = session.name_of(topic.topic, topic.topic_id)
                for data in topic.partitions:
                    found = asked.get(TopicPartition(name or "", data.partition_index))
                    if found is not None and found[0].cursor.token == found[1]:
                        await self._accept(found[0], found[2], found[3], data)
        except (UnreachableError, OutOfTimeError, RefusedError) as fault:
            _log.debug("fetch from broker %d: %s", node, fault)
            for one, token, *_ in asked.values():
                if one.cursor.token == token:
                    one.replica = -1
                    one.cursor.lost_leader()
            self._sessions.pop(node, None)
            await asyncio.sleep(_PAUSE_S)
        except QanatError as fault:
            # Bytes that are no batch, or a broker that speaks no version of ours: another attempt would end alike.
            for one, token, *_ in asked.values():
                if one.cursor.token == token:
                    one.cursor.fail(f"{one.at} cannot be read at offset {one.cursor.offset}: {fault}")
                    self._report(one, one.cursor.failure)
        finally:
            self._busy.pop(node, None)
            self.on_change()

    async def _request(
        self, node: int, partitions: list[AssignedPartition], is_short: bool
    ) -> tuple[FetchResponse | None, FetchSession]:
        settings = self._settings
        deadline = Deadline.after((settings.request_timeout_ms + settings.fetch_max_wait_ms) / 1000)
        link = await self._cluster.node_link(node, deadline)
        known, session = self._sessions.get(node, (link, FetchSession()))
        if known is not link:
            session = FetchSession()
        self._sessions[node] = link, session
        terms = FetchTerms(
            min(settings.fetch_max_wait_ms, _SHORT_WAIT_MS) if is_short else settings.fetch_max_wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.is_committed_only,
            settings.client_rack,
        )
        size = settings.max_partition_fetch_bytes
        wanted = {one.at: Wanted(one.topic_id, one.cursor.offset, one.cursor.leader_epoch, size) for one in partitions}
        can_use_ids = link.version_of(ApiKey.FETCH, 18) > BY_NAME_AT_MOST
        request = session.request(wanted, terms, can_use_ids=can_use_ids)
        try:
            response: FetchResponse = await link.call(
                ApiKey.FETCH, request, deadline, at_most=None if not session.uses_ids else 18
            )
        except BaseException:
            session.reset()
            raise
        if session.answered(response.error_code, response.session_id):
            return response, session
        if response.error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            for one in partitions:
                one.cursor.lost_leader()
        return None, session

    async def _accept(self, one: AssignedPartition, token: int, position: int, data: PartitionData) -> None:
        if data.preferred_read_replica >= 0:
            one.replica = data.preferred_read_replica
            return
        if data.error_code != ErrorCode.NONE:
            self._refuse(one, data)
            return
        one.end_offset = data.last_stable_offset if self._settings.is_committed_only else data.high_watermark
        one.log_start = data.log_start_offset
        cursor_token = one.cursor.token
        chunks, next_offset, epoch = chunks_of(data, token, position)
        if not chunks:
            return
        if not self.is_raw:
            await _open_large(chunks)
        if one.cursor.token == cursor_token:
            one.cursor.advanced(next_offset, epoch)
            self._buffer.push(one, chunks)

    def _refuse(self, one: AssignedPartition, data: PartitionData) -> None:
        if one.replica >= 0:
            one.replica = -1  # A follower may lag behind: its leader decides.
            return
        message = one.cursor.refused(data.error_code, str(one.at), data.log_start_offset)
        if message is not None:
            self._report(one, message)


def chunks_of(data: PartitionData, token: int, position: int) -> tuple[list[Chunk], int, int]:
    """The batches of an answer as chunks, where to continue, and the last leader epoch.

    Markers and aborted records are in no chunk, but move its end.
    """
    chunks: list[Chunk] = []
    chunk = Chunk(token, position)
    epoch = -1
    for batch, header, is_visible in marked_batches(data):
        if header.next_offset <= position:
            continue
        if chunk.size and chunk.size + len(batch) > _CHUNK_BYTES and is_visible:
            chunks.append(chunk)
            chunk = Chunk(token, chunk.next_offset)
        if is_visible:
            chunk.add(batch, header)
        chunk.next_offset = header.next_offset
        epoch = header.leader_epoch
    if chunk.next_offset > chunk.first_offset:
        chunks.append(chunk)
    return chunks, chunk.next_offset, epoch


async def _open_large(chunks: list[Chunk]) -> None:
    large = [
        chunk for chunk in chunks if chunk.size >= _LARGE_BYTES and any(header.codec for _, header in chunk.batches)
    ]
    if large:
        try:
            await asyncio.to_thread(_open_all, large)
        except QanatError:
            return  # The user hears of it when the records are decoded.


def _open_all(chunks: list[Chunk]) -> None:
    for chunk in chunks:
        chunk.open_ahead()
