"""A TCP proxy whose line can be cut, silenced or made to lose one direction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Line:
    """Connections accepted at `port` go to `target_port`. Flags hold from the next bytes on."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.loses_requests = False
        self.loses_answers = False
        self.accepts = True
        self.bytes_lost = 0
        self._dead: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.accepts:
            writer.close()
            return
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, to_writer}
        there = asyncio.create_task(self._copy(reader, to_writer, is_request=True))
        back = asyncio.create_task(self._copy(to_reader, writer, is_request=False))
        self._tasks |= {there, back}
        await asyncio.wait((there, back))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                is_dead = asyncio.current_task() in self._dead
                if is_dead or (self.loses_requests if is_request else self.loses_answers):
                    self.bytes_lost += len(data)
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()

    def silence(self) -> None:
        """Nothing gets through, without an error at either end."""
        self.loses_requests = self.loses_answers = True

    def cut(self) -> None:
        """End all connections; new ones are as good as the flags say."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def forget(self) -> None:
        """Connections from before stay silent for ever, and open; new ones get through."""
        self._dead |= self._tasks
        self.loses_requests = self.loses_answers = False

    def heal(self) -> None:
        """Connections from before stay as broken as they are: end them, and let new ones through."""
        self.cut()
        self.loses_requests = self.loses_answers = False
        self.accepts = True

    async def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def line_to(target_port: int) -> AsyncIterator[Line]:
    line = Line(target_port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        await line.close()
        await server.wait_closed()
