"""How many streams each client may have, and what ends them all when the door is closed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from qanat.servers.http.problems import Problem

KERNEL_BYTES = 128 * 1024
"""What the kernel may hold for one stream; without a limit it holds megabytes for a client that does not read."""


def limit_kernel(transport: asyncio.BaseTransport) -> None:
    """Let the kernel hold little for this connection, so that a stream's client that does not read costs little."""
    wire = transport.get_extra_info("socket")
    if wire is not None:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)


class Streams:
    """How many streams each client has, and what ends them all when the door is closed."""

    def __init__(self, per_client: int) -> None:
        self._per_client = per_client
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return self._open.total()

    @contextmanager
    def one_more(self, host: str) -> Iterator[None]:
        """A stream of this client, as long as it lasts; raises a problem where it has too many."""
        if self._open[host] >= self._per_client:
            raise Problem(
                429,
                f"{host} has {self._per_client} streams open (http.streams.per.client): close some first",
                headers=((b"retry-after", b"1"),),
            )
        self._open[host] += 1
        try:
            yield
        finally:
            self._open[host] -= 1
            if not self._open[host]:
                del self._open[host]

    async def run(self, stream: asyncio.Task[None], gone: asyncio.Task[None]) -> None:
        """Until the stream ends or its client is gone."""
        both = {stream, gone}
        self._tasks |= both
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)
            self._tasks -= both
        if not stream.cancelled() and (fault := stream.exception()) is not None:
            raise fault

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
