"""The writer of a stream: it reads records only when the client can take more.

A slow client costs the transport's buffer and nothing else: when the transport is full, records that were read and not
yet sent are dropped, and read again from the same position when there is room.

Rule: no record is sent after the client's token or API key has ended, or its right to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Encoding, Message, to_decoded_message, to_message
from qanat.servers.http.streams.multi_leader_fetch import MultiLeaderFetch

if TYPE_CHECKING:
    from qanat.connection.records.filter_expression import Condition
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.context import HttpContext
    from qanat.servers.http.records.record_json import OpenedBatches
    from qanat.wire.kafka.messages.fetch import PartitionData
    from qanat.wire.record_reader import RawRecord
    from qanat.wire.value_formats import ValueReader

FETCH_BYTES = 256 * 1024
PIECE_BYTES = 32 * 1024
"""Text of one piece, unless a single record is larger."""
SILENCE_MS = 10_000
"""How often a stream without records sends a sign of life."""
_PAUSE_S = 0.05


class SlowReaderError(Exception):
    """A client read nothing for too long."""


class Flow(Protocol):
    """Whether a client's transport is full."""

    @property
    def write_paused(self) -> bool: ...

    async def drain(self) -> None: ...


class StreamWriter:
    """One stream: its position in the topic, and its next pieces."""

    def __init__(
        self,
        context: HttpContext,
        caller: HttpCaller,
        topic: str,
        cursor: Cursor,
        *,
        is_committed: bool,
        encoding: Encoding,
        reader: ValueReader | None = None,
        condition: Condition | None = None,
        render: Callable[[Message, Cursor], bytes],
    ) -> None:
        self._context = context
        self._caller = caller
        self._topic = topic
        self.cursor = cursor
        self._is_committed = is_committed
        self._encoding = encoding
        self._reader = reader
        self._condition = condition
        self._render = render

    async def pieces(self, flow: Flow) -> AsyncGenerator[list[bytes], None]:
        """Rendered records, a piece at a time; an empty piece after a time without records."""
        reads = self._context.reads
        fetches = MultiLeaderFetch(reads, self._caller, self._topic, FETCH_BYTES, SILENCE_MS, self._is_committed)
        try:
            while True:
                if flow.write_paused:
                    fetches.stop()
                    await self._drain(flow)
                has_any = False
                positions = dict(enumerate(self.cursor.offsets))
                rows = await fetches.rows(positions)
                if (problem := self.lost()) is not None:
                    raise problem
                for row in rows:
                    await reads.check(self._caller, self._topic, row, positions[row.partition_index])
                    if row.error_code:
                        await asyncio.sleep(_PAUSE_S)
                        continue
                    async with aclosing(self._pieces_of(row)) as pieces:
                        async for piece in pieces:
                            has_any = True
                            yield piece
                            if flow.write_paused:
                                break
                    if flow.write_paused:
                        break
                if not has_any:
                    yield []
        finally:
            fetches.stop()

    def lost(self) -> Problem | None:
        """Why the client may not go on reading; None while it may."""
        context, caller = self._context, self._caller
        return context.authentication.lost(caller) or context.gateway.lost_read(caller, self._topic)

    async def _drain(self, flow: Flow) -> None:
        try:
            async with asyncio.timeout(self._context.settings.http_stream_timeout_ms / 1000):
                await flow.drain()
        except TimeoutError:
            raise SlowReaderError from None

    async def _pieces_of(self, row: PartitionData) -> AsyncGenerator[list[bytes], None]:
        """A partition's records, rendered a piece at a time; the cursor moves with each piece."""
        number, offsets = row.partition_index, self.cursor.offsets
        batches = self._context.reads.opened(row, offsets[number])
        piece: list[bytes] = []
        size = 0
        while (records := await self._next(batches, number)) is not None:
            for offset, timestamp, raw in records:
                offsets[number] = offset + 1
                message = self._message(number, offset, timestamp, raw)
                if message is None:
                    continue
                text = self._render(message, self.cursor)
                piece.append(text)
                size += len(text)
                if size >= PIECE_BYTES:
                    yield piece
                    piece, size = [], 0
        offsets[number] = batches.next_offset
        if piece:
            yield piece

    def _message(self, number: int, offset: int, timestamp: int, raw: RawRecord) -> Message | None:
        """A record as it is sent; None where it does not meet the condition."""
        found = None if self._reader is None or raw[4] is None else self._reader.read(raw[4])
        value = raw[4] if found is None or found.text is None else found.text
        if self._condition is not None and not self._condition.holds_for(
            (number, offset, timestamp, raw[3], value, raw[5])
        ):
            return None
        if found is None or self._reader is None:
            return to_message(number, offset, timestamp, raw, self._encoding)
        return to_decoded_message(number, offset, timestamp, raw, self._encoding, found, self._reader.format)

    async def _next(self, batches: OpenedBatches, number: int) -> Iterator[tuple[int, int, RawRecord]] | None:
        try:
            return await batches.next()
        except QanatError as fault:
            raise problem_of(fault.code, f"topic {self._topic} partition {number}", str(fault)) from None
