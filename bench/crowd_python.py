"""Many clients at once, each a raw connection: the same as `crowd.c`, on asyncio."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

_TIMEOUT_S = 60


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


class _Work:
    """Requests that are left, shared by all clients."""

    def __init__(self, requests: int) -> None:
        self.unsent = requests
        self.unanswered = requests
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self) -> None:
        self.unanswered -= 1
        if not self.unanswered and not self.done.done():
            self.done.set_result(None)


class _Client(asyncio.Protocol):
    def __init__(self, frame: bytes, topic: str) -> None:
        self._frame = frame
        # Size, correlation id, topics, name, partitions, index; the error code, three longs, the throttle time.
        self._error_at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
        self._answer_bytes = self._error_at + 2 + 3 * 8 + 4
        self._got = bytearray()
        self._work: _Work | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def begin(self, work: _Work, in_flight: int) -> None:
        self._work = work
        for _ in range(in_flight):
            self._send()

    def _send(self) -> None:
        if self._work is not None and self._work.unsent:
            self._work.unsent -= 1
            self._transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        self._got += data
        while len(self._got) >= self._answer_bytes and self._work is not None:
            if any(self._got[self._error_at : self._error_at + 2]):
                self._fail("the broker refused records")
            del self._got[: self._answer_bytes]
            self._work.answered()
            self._send()

    def connection_lost(self, fault: Exception | None) -> None:
        self._fail("the broker closed a connection")

    def _fail(self, why: str) -> None:
        if self._work is not None and not self._work.done.done():
            self._work.done.set_exception(ConnectionError(why))


async def _run(address: str, topic: str, count: int, settings: dict[str, Any]) -> dict[str, float]:
    how_many, in_flight = int(settings["driver.clients"]), int(settings["driver.in_flight"])
    records = int(settings["driver.records"])
    frame = bytes.fromhex(settings["driver.frame"])
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: _Client(frame, topic), host, int(port)))[1] for _ in range(how_many)
    ]
    await _all_of(clients, 1, how_many)
    wait_for_go()
    start = time.perf_counter()
    await _all_of(clients, in_flight, count // records)
    return {"seconds": time.perf_counter() - start, "count": count // records * records}


async def _all_of(clients: list[_Client], in_flight: int, requests: int) -> None:
    work = _Work(requests)
    for one in clients:
        one.begin(work, in_flight)
    await asyncio.wait_for(work.done, _TIMEOUT_S)


def clients(address: str, topic: str, size: int, count: int, rate: int, settings: dict[str, Any]) -> dict[str, float]:
    return asyncio.run(_run(address, topic, count, settings))
