"""Records of a topic as they come, for streams: read only when the client can take more.

A slow client costs what the transport holds for it and nothing else: as soon as the transport is full, everything that
was read and not yet sent is dropped, and read again from the same place when there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from qanat.servers.http.records.partition_reads import Cursor
from qanat.servers.http.records.record_json import Encoding, Message, records_of, told
from qanat.servers.http.streams.multi_leader_fetch import Following

if TYPE_CHECKING:
    from qanat.servers.http.caller import Caller
    from qanat.servers.http.context import HttpContext
    from qanat.wire.kafka.messages.fetch import PartitionData

FETCH_BYTES = 256 * 1024
PIECE_BYTES = 32 * 1024
"""Text that is sent at once, unless one record alone is larger."""
SILENCE_MS = 10_000
"""So often a client that hears nothing is told that it is still connected."""
_PAUSE_S = 0.05


class SlowReaderError(Exception):
    """A client took nothing for too long."""


class Flow(Protocol):
    """Whether a client's transport is full."""

    @property
    def write_paused(self) -> bool: ...

    async def drain(self) -> None: ...


class Pump:
    """One stream: where it is in its topic, and what it sends next."""

    def __init__(
        self,
        door: HttpContext,
        caller: Caller,
        topic: str,
        cursor: Cursor,
        *,
        is_committed: bool,
        encoding: Encoding,
        render: Callable[[Message, Cursor], bytes],
    ) -> None:
        self._door = door
        self._caller = caller
        self._topic = topic
        self.cursor = cursor
        self._is_committed = is_committed
        self._encoding = encoding
        self._render = render

    async def pieces(self, flow: Flow) -> AsyncGenerator[list[bytes], None]:
        """Rendered records, a piece at a time; an empty piece after a silence."""
        reading = self._door.reading
        following = Following(reading, self._caller, self._topic, FETCH_BYTES, SILENCE_MS, self._is_committed)
        try:
            while True:
                if flow.write_paused:
                    following.stop()
                    await self._drain(flow)
                has_any = False
                positions = dict(enumerate(self.cursor.offsets))
                for row in await following.rows(positions):
                    await reading.check(self._caller, self._topic, row, positions[row.partition_index])
                    if row.error_code:
                        await asyncio.sleep(_PAUSE_S)
                        continue
                    for piece in self._of(row):
                        has_any = True
                        yield piece
                        if flow.write_paused:
                            break
                    if flow.write_paused:
                        break
                if not has_any:
                    yield []
        finally:
            following.stop()

    async def _drain(self, flow: Flow) -> None:
        try:
            async with asyncio.timeout(self._door.settings.http_stream_timeout_ms / 1000):
                await flow.drain()
        except TimeoutError:
            raise SlowReaderError from None

    def _of(self, row: PartitionData) -> Iterator[list[bytes]]:
        """A partition's records, rendered a piece at a time; the cursor is where the last piece ends."""
        number, offsets = row.partition_index, self.cursor.offsets
        piece: list[bytes] = []
        size = 0
        for offset, timestamp, raw in records_of(row, offsets[number]):
            if raw is None:
                offsets[number] = offset
                break
            offsets[number] = offset + 1
            text = self._render(told(number, offset, timestamp, raw, self._encoding), self.cursor)
            piece.append(text)
            size += len(text)
            if size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece
