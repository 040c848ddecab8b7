"""The driver of NATS JetStream: nats-py, up to 4,000 publishes in flight, an ordered consumer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable

import nats
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DeliverPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from bench.peers.driving import TIMEOUT_S, Asked, main
from bench.peers.looping import modes

IN_FLIGHT = 4_000


class JetStream:
    """One stream; `bench.push` has another kind of consumer for it."""

    def __init__(self, context: JetStreamContext, name: str) -> None:
        self.context = context
        self.name = name

    async def create(self) -> None:
        await self.context.add_stream(StreamConfig(name=self.name, subjects=[self.name], storage=StorageType.FILE))

    async def delete(self) -> None:
        with contextlib.suppress(NotFoundError):
            await self.context.delete_stream(self.name)

    async def send_all(self, payload: bytes, count: int) -> None:
        publish = self.context.publish_async
        for acknowledged in [await publish(self.name, payload, wait_stall=TIMEOUT_S) for _ in range(count)]:
            await acknowledged

    async def send_one(self, payload: bytes) -> None:
        await self.context.publish(self.name, payload)

    async def post(self, payload: bytes) -> None:
        await self.context.publish_async(self.name, payload)

    async def settle(self) -> None:
        await self.context.publish_async_completed()

    async def subscribe(self, on_payload: Callable[[bytes], None], *, is_from_start: bool) -> None:
        async def on_message(message: Msg) -> None:
            on_payload(message.data)

        policy = DeliverPolicy.ALL if is_from_start else DeliverPolicy.NEW
        await self.context.subscribe(self.name, cb=on_message, ordered_consumer=True, deliver_policy=policy)


@contextlib.asynccontextmanager
async def _connected(asked: Asked) -> AsyncIterator[JetStream]:
    connection = await nats.connect(f"nats://{asked.address}", allow_reconnect=False)
    try:
        context = connection.jetstream(timeout=TIMEOUT_S, publish_async_max_pending=IN_FLIGHT)
        yield JetStream(context, asked.topic)
    finally:
        await connection.close()


MODES = modes(_connected)

if __name__ == "__main__":
    sys.exit(main(("nats-py",), MODES, sys.argv[1:]))
