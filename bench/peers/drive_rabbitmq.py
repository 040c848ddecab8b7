"""The driver of RabbitMQ streams: rstream on the stream protocol, frames of 500 messages, ten of them in flight."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

from bench.peers.driving import TIMEOUT_S, Asked, main
from bench.peers.looping import modes

FRAME = 500
IN_FLIGHT = 10 * FRAME
_USER = "guest"
"""Also the password: RabbitMQ's default, which it accepts from loopback only."""


class _Window:
    """Messages that are sent and not yet confirmed."""

    def __init__(self) -> None:
        self._unconfirmed = 0
        self._changed = asyncio.Event()

    def sent(self, count: int) -> None:
        self._unconfirmed += count

    def confirmed(self, status: Any) -> None:
        if not status.is_confirmed:
            raise SystemExit("driver: a message was refused")
        self._unconfirmed -= 1
        self._changed.set()

    async def below(self, limit: int) -> None:
        while self._unconfirmed >= limit:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), TIMEOUT_S)


class _Stream:
    """The producer connects with the stream, a consumer on demand."""

    def __init__(self, producer: Producer, asked: Asked, until_closed: contextlib.AsyncExitStack) -> None:
        self._producer = producer
        self._asked = asked
        self._until_closed = until_closed
        self._window = _Window()

    async def create(self) -> None:
        await self._producer.create_stream(self._asked.topic)

    async def delete(self) -> None:
        await self._producer.delete_stream(self._asked.topic, missing_ok=True)

    async def send_all(self, payload: bytes, count: int) -> None:
        for begin in range(0, count, FRAME):
            await self._send([payload] * min(FRAME, count - begin))
            await self._window.below(IN_FLIGHT)
        await self.settle()

    async def send_one(self, payload: bytes) -> None:
        await self._producer.send_wait(self._asked.topic, payload)

    async def post(self, payload: bytes) -> None:
        await self._send([payload])

    async def settle(self) -> None:
        await self._window.below(1)

    async def subscribe(self, on_payload: Callable[[bytes], None], *, is_from_start: bool) -> None:
        def on_message(message: Any, *_: Any) -> None:
            on_payload(message)

        consumer = Consumer(self._asked.host, self._asked.port, username=_USER, password=_USER)
        await self._until_closed.enter_async_context(consumer)
        begin = ConsumerOffsetSpecification(OffsetType.FIRST if is_from_start else OffsetType.NEXT, None)
        await consumer.subscribe(self._asked.topic, on_message, offset_specification=begin)

    async def _send(self, frame: list[bytes]) -> None:
        self._window.sent(len(frame))
        await self._producer.send_batch(self._asked.topic, frame, on_publish_confirm=self._window.confirmed)


@contextlib.asynccontextmanager
async def _connected(asked: Asked) -> AsyncIterator[_Stream]:
    async with contextlib.AsyncExitStack() as until_closed:
        producer = Producer(asked.host, asked.port, username=_USER, password=_USER)
        await until_closed.enter_async_context(producer)
        yield _Stream(producer, asked, until_closed)


MODES = modes(_connected)

if __name__ == "__main__":
    sys.exit(main(("rstream",), MODES, sys.argv[1:]))
