"""The driver of push: `qanat.client`'s push consumer and push producer on one loop, each with its own connection.

`endtoend` is a member of a group that acknowledges each record (mode `log`); `endtoend-all` a subscriber without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from bench import driver_python
from bench.peers.driving import Asked, Found, Mode, main
from bench.peers.looping import modes
from qanat.client import AsyncPushConsumer, AsyncPushProducer

_JOIN_S = 2.0
"""Until a member has its partition."""


class _Stream:
    def __init__(self, asked: Asked, producer: AsyncPushProducer, consumer: AsyncPushConsumer) -> None:
        self._topic = asked.topic
        self._producer = producer
        self._consumer = consumer
        self._reading: asyncio.Task[None] | None = None

    async def create(self) -> None:
        raise NotImplementedError("the Kafka driver creates topics")

    delete = create

    async def send_all(self, payload: bytes, count: int) -> None:
        for answer in [await self._producer.send(self._topic, payload, partition=0) for _ in range(count)]:
            await answer

    async def send_one(self, payload: bytes) -> None:
        await (await self._producer.send(self._topic, payload, partition=0))

    async def post(self, payload: bytes) -> None:
        await self._producer.send(self._topic, payload, partition=0)

    async def settle(self) -> None:
        await self._producer.flush()
        if self._reading is not None:
            self._reading.cancel()

    async def subscribe(self, on_payload: Callable[[bytes], None], *, is_from_start: bool) -> None:
        async def read() -> None:
            async for record in self._consumer:
                on_payload(record.value or b"")

        self._reading = asyncio.create_task(read())
        await asyncio.sleep(_JOIN_S)


def _connecting(group: str) -> Callable[[Asked], contextlib.AbstractAsyncContextManager[_Stream]]:
    @contextlib.asynccontextmanager
    async def connected(asked: Asked) -> AsyncIterator[_Stream]:
        settings: dict[str, Any] = {"group_id": group} if group else {}
        async with (
            AsyncPushProducer(asked.address) as producer,
            AsyncPushConsumer(asked.address, asked.topic, **settings) as consumer,
        ):
            yield _Stream(asked, producer, consumer)

    return connected


def _kafka_mode(name: str) -> Mode:
    def run(asked: Asked) -> Found:
        work = driver_python.MODES[name]
        return work(asked.address, asked.topic, asked.size, asked.count, asked.rate, dict(asked.settings))

    return run


MODES: dict[str, Mode] = {
    "create": _kafka_mode("create"),
    "delete": _kafka_mode("delete"),
    "endtoend": modes(_connecting("bench"))["endtoend"],
    "endtoend-all": modes(_connecting(""))["endtoend"],
}

if __name__ == "__main__":
    sys.exit(main(("qanat",), MODES, sys.argv[1:]))
