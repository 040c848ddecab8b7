"""A link: everything that passes it shares one rate in each direction, and comes later by a delay.

Rule 1: what does not fit waits at the sender: a small buffer on either side, as a modem has.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 4096
_BUFFER = 32 * 1024
_LATE_S = 0.02
"""A timer that comes late costs the link nothing: what it could have sent meanwhile is sent at once."""


class Link:
    """Ports that lead to other ports over one link; runs in a thread of its own."""

    def __init__(self, rate_bytes_per_s: float, delay_s: float) -> None:
        self._rate = rate_bytes_per_s
        self._delay_s = delay_s
        self._free_s = [0.0, 0.0]
        self.connections = 0
        """How many have been made."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def port_to(self, target: Callable[[], int]) -> int:
        """A new port that leads to the one that `target` names when a connection comes."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=1000)

        async def begin() -> None:
            await asyncio.start_server(lambda reader, writer: self._join(reader, writer, target()), sock=listening)

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result()
        return int(listening.getsockname()[1])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.connections += 1
        far = socket.socket()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        far.setblocking(False)
        with suppress(OSError):
            await self._loop.sock_connect(far, ("127.0.0.1", port))
            there, back = await asyncio.open_connection(sock=far, limit=_BUFFER)
            await asyncio.gather(self._pass(reader, back, 0), self._pass(there, writer, 1))
        writer.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: int) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                now = time.monotonic()
                begun = max(now - _LATE_S, self._free_s[way])
                self._free_s[way] = begun + len(data) / self._rate
                await asyncio.sleep(max(0.0, self._free_s[way] - now))
                self._loop.call_later(self._delay_s, _write, sink, data)
        self._loop.call_later(self._delay_s, sink.close)


def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    if not sink.is_closing():
        sink.write(data)
