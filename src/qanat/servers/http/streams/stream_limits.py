"""Limits of streams: how many each client may have open, and when they end.

Rule: a stream ends within a second after its client has lost its right or its credentials, whether records come or not.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qanat.servers.http.problems import Problem

KERNEL_BYTES = 128 * 1024
"""The kernel's send buffer of one stream; without a limit it holds megabytes for a client that does not read."""
LOOK_S = 0.5
"""How often open streams are asked whether their clients may go on."""


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
        self._losses: dict[asyncio.Future[Problem], Callable[[], Problem | None]] = {}
        """Of each open stream, why its client may not go on: what is asked, and where it is told."""
        self._looking: asyncio.TimerHandle | None = None

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

    async def run(
        self, stream: asyncio.Task[None], gone: asyncio.Task[None], lost: Callable[[], Problem | None]
    ) -> Problem | None:
        """Run until the stream ends, its client disconnects, or `lost` says why it may not go on: that is returned."""
        both = {stream, gone}
        self._tasks |= both
        loop = asyncio.get_running_loop()
        loss: asyncio.Future[Problem] = loop.create_future()
        self._losses[loss] = lost
        if self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look)
        try:
            waited: set[asyncio.Future[Any]] = {*both, loss}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._losses[loss]
            for task in both:
                task.cancel()
            await asyncio.wait(both)
            self._tasks -= both
        if not stream.cancelled() and (fault := stream.exception()) is not None:
            raise fault
        return loss.result() if loss.done() and stream.cancelled() else None

    def _look(self) -> None:
        """Tell the streams whose clients may not go on; again in a moment, while there are streams."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look) if self._losses else None
        for loss, lost in self._losses.items():
            if not loss.done() and (problem := lost()) is not None:
                loss.set_result(problem)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for task in list(self._tasks):
            task.cancel()
