"""Limits of streams: how many each client may have open, and their end when the listener closes."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from qanat.servers.http.problems import Problem

KERNEL_BYTES = 128 * 1024
"""The kernel's send buffer of one stream; without a limit it holds megabytes for a client that does not read."""


def limit_kernel(transport: asyncio.BaseTransport) -> None:
    """Limit the kernel's send buffer, so that a client that does not read costs little."""
    wire = transport.get_extra_info("socket")
    if wire is not None:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)


class Streams:
    """The open streams by client; `close` ends them all."""

    def __init__(self, per_client: int) -> None:
        self._per_client = per_client
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        return self._open.total()

    @contextmanager
    def admit(self, host: str) -> Iterator[None]:
        """Count a stream of this client while it lasts; raises a problem where it has too many."""
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
        """Run until the stream ends or its client disconnects."""
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
