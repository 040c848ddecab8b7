"""The loops of drivers on asyncio, the same for each library.

`driving` has what all drivers share; a library's own words are in its driver, as a `Stream`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from bench.peers.driving import (
    SYNC_WARM_UP,
    TIMEOUT_S,
    Arrivals,
    Asked,
    Found,
    Mode,
    paced,
    percentiles,
    throughput,
    wait_for_go,
)
from qanat.app.bench.clients.latencies import Latencies


class Stream(Protocol):
    """One stream of one server, as its client library sees it."""

    async def create(self) -> None: ...
    async def delete(self) -> None: ...

    async def send_all(self, payload: bytes, count: int) -> None:
        """Send pipelined, as far as the library allows; returns when all are acknowledged."""

    async def send_one(self, payload: bytes) -> None:
        """Send one message; returns when it is acknowledged."""

    async def post(self, payload: bytes) -> None:
        """Send one message without waiting for its acknowledgement."""

    async def settle(self) -> None:
        """Wait until all posted messages are acknowledged."""

    async def subscribe(self, on_payload: Callable[[bytes], None], *, is_from_start: bool) -> None: ...


Connect = Callable[[Asked], AbstractAsyncContextManager[Stream]]
_Work = Callable[[Stream, Asked], Coroutine[Any, Any, Found]]


async def _produce(stream: Stream, asked: Asked) -> Found:
    await stream.send_all(asked.payload, asked.warm_up_count)
    wait_for_go()
    start = time.perf_counter()
    await stream.send_all(asked.payload, asked.count)
    return throughput(start, asked.count)


async def _consume(stream: Stream, asked: Asked) -> Found:
    done, seen = asyncio.Event(), 0

    def on_payload(_: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == asked.count:
            done.set()

    wait_for_go()
    start = time.perf_counter()
    await stream.subscribe(on_payload, is_from_start=True)
    await asyncio.wait_for(done.wait(), TIMEOUT_S)
    return throughput(start, seen)


async def _sync(stream: Stream, asked: Asked) -> Found:
    latencies, payload = Latencies(), asked.payload
    for _ in range(SYNC_WARM_UP):
        await stream.send_one(payload)
    wait_for_go()
    for _ in range(asked.count):
        start = time.perf_counter()
        await stream.send_one(payload)
        latencies.record(max(1, round((time.perf_counter() - start) * 1e6)))
    return percentiles(latencies)


async def _end_to_end(stream: Stream, asked: Asked) -> Found:
    done, arrivals, loop = asyncio.Event(), Arrivals(asked.count), asyncio.get_running_loop()

    def on_payload(payload: bytes) -> None:
        arrivals.saw(payload)
        if arrivals.is_complete:
            done.set()

    await stream.subscribe(on_payload, is_from_start=False)
    wait_for_go()
    paced(asked, lambda payload: asyncio.run_coroutine_threadsafe(stream.post(payload), loop)).start()
    await asyncio.wait_for(done.wait(), TIMEOUT_S + asked.count / asked.rate)
    await stream.settle()
    return arrivals.found()


async def _create(stream: Stream, _: Asked) -> Found:
    await stream.create()
    return {}


async def _delete(stream: Stream, _: Asked) -> Found:
    await stream.delete()
    return {}


def modes(connect: Connect) -> dict[str, Mode]:
    """Every mode of a driver, each over a connection of its own."""
    works: dict[str, _Work] = {
        "produce": _produce,
        "consume": _consume,
        "sync": _sync,
        "endtoend": _end_to_end,
        "create": _create,
        "delete": _delete,
    }
    return {name: _in_a_loop(connect, work) for name, work in works.items()}


def _in_a_loop(connect: Connect, work: _Work) -> Mode:
    async def connected(asked: Asked) -> Found:
        async with connect(asked) as stream:
            return await work(stream, asked)

    def run(asked: Asked) -> Found:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(connected(asked))

    return run
