"""Idle clients: the CPU time of a process whose client has nothing to do, as a share of one core.

python -m bench.client.idle                            all
python -m bench.client.idle consumer <address> 20      one of them, for so many seconds
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from bench.client.bars import Bar, show
from bench.client.broker import running

TOPIC = "idle"
LIMIT_PERCENT = 0.5
_SETTLE_S = 3.0
"""Until a client has joined its group."""


async def _watch(seconds: float) -> None:
    await asyncio.sleep(_SETTLE_S)
    began_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    print(100 * (time.process_time() - began_s) / (time.perf_counter() - wall_s), flush=True)


async def producer(address: str, seconds: float) -> None:
    from qanat.client import AsyncProducer

    async with AsyncProducer(address) as one:
        await (await one.send(TOPIC, b"first"))
        await _watch(seconds)


async def consumer(address: str, seconds: float) -> None:
    from qanat.client import AsyncConsumer

    async with AsyncConsumer(address, TOPIC, group="idle") as one:
        reading = asyncio.create_task(one.poll(timeout_s=seconds + 2 * _SETTLE_S))
        await _watch(seconds)
        reading.cancel()


async def queue(address: str, seconds: float) -> None:
    from qanat.client import AsyncQueueConsumer

    async with AsyncQueueConsumer(address, TOPIC, group="idle-queue") as one:
        reading = asyncio.create_task(one.poll(timeout_s=seconds + 2 * _SETTLE_S))
        await _watch(seconds)
        reading.cancel()


async def app(address: str, seconds: float) -> None:
    from qanat.client import App

    one = App(address)

    @one.stream(TOPIC, group="idle-app")
    async def handle(value: bytes) -> None: ...

    serving = asyncio.create_task(one.serve())
    await _watch(seconds)
    one.stop()
    await serving


KINDS: dict[str, Callable[[str, float], Awaitable[None]]] = {
    "producer": producer,
    "consumer": consumer,
    "queue": queue,
    "app": app,
}


def bars(seconds: float) -> list[Bar]:
    """Each kind of client in a process of its own, one after another."""
    found = []
    with running(TOPIC) as address:
        for kind in KINDS:
            line = [sys.executable, "-m", "bench.client.idle", kind, address, str(seconds)]
            done = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=seconds + 60, check=True)
            found.append(Bar(f"idle {kind}", float(done.stdout), LIMIT_PERCENT, "at most", "% CPU"))
    return found


async def _run(kind: str, address: str, seconds: float) -> None:
    await KINDS[kind](address, seconds)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_run(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    else:
        show(bars(20.0))
