"""CPU per record of a typed handler, without and with suspension: `python bench/client/handlers.py`.

Records are in memory, so that only the app's own work is measured: decoding, lanes, slots, the handler, offsets.
The bar: 10 µs without suspension, 25 µs with.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from bench.client.bars import Bar, show
from qanat.client.app.app import App
from qanat.client.app.context import Context
from qanat.client.app.worker import AppWorker
from qanat.client.io_loop import IoLoop
from qanat.client.records import Record
from qanat.model.ids import TopicPartition

RECORDS = 200_000
ROUNDS = 3


class Order(msgspec.Struct):
    id: int
    customer: str
    amount: float


class _Consumer:
    """Records of a list, from its end, and no network."""

    group_metadata = None

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self.is_empty = asyncio.Event()
        self._left = [
            Record("orders", 0, i, 0, b"c%d" % (i % 1000), b'{"id":%d,"customer":"c%d","amount":1.5}' % (i, i % 1000))
            for i in reversed(range(RECORDS))
        ]

    async def start(self) -> None:
        await self._owner.on_assigned([TopicPartition("orders", 0)])

    async def poll(self, max_records: int = 500, timeout_s: float = 1.0) -> list[Any]:
        if not self._left:
            self.is_empty.set()
            await asyncio.sleep(timeout_s)
        found = self._left[: -max_records - 1 : -1]
        del self._left[-max_records:]
        await asyncio.sleep(0)
        return found

    async def commit(self, offsets: Any = None) -> None: ...
    async def close(self) -> None: ...


class _Clients:
    def __init__(self) -> None:
        self.consumer: _Consumer | None = None

    def stream_consumer(self, handler: Any, owner: Any) -> Any:
        self.consumer = _Consumer(owner)
        return self.consumer


async def _measure(app: App) -> float:
    """CPU seconds of all records."""
    clients: Any = _Clients()
    worker = AppWorker(app, IoLoop.here(), clients=clients)
    serving = asyncio.create_task(app.serve_worker(worker))
    while clients.consumer is None:  # noqa: ASYNC110 - a bench may look
        await asyncio.sleep(0)
    begin = time.process_time()
    await clients.consumer.is_empty.wait()
    while any(one.held for one in worker.counters()):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)
    used = time.process_time() - begin
    app.stop()
    await serving
    return used


def _apps() -> dict[str, App]:
    plain, suspending, with_context = App("x:1"), App("x:1"), App("x:1")

    @plain.stream("orders", concurrency=64)
    async def bill(order: Order) -> None: ...

    @with_context.stream("orders", concurrency=64)
    async def bill_in_context(order: Order, ctx: Context) -> None: ...

    @suspending.stream("orders", concurrency=64)
    async def charge(order: Order) -> None:
        await asyncio.sleep(0)

    return {"without suspension": plain, "with a context": with_context, "with suspension": suspending}


def bars(rounds: int = ROUNDS) -> list[Bar]:
    """The cost of a typed handler, without a network."""
    best = {}
    for name, app in _apps().items():
        best[name] = min(asyncio.run(_measure(app)) for _ in range(rounds)) / RECORDS * 1e6
        print(
            f"  handler {name:20} {best[name]:6.2f} µs CPU per record, {1e3 / best[name]:6.0f} k records/s", flush=True
        )
    return [
        Bar("typed handler without suspension", best["without suspension"], 10.0, "at most", "µs"),
        Bar("typed handler with suspension", best["with suspension"], 25.0, "at most", "µs"),
    ]


if __name__ == "__main__":
    show(bars())
