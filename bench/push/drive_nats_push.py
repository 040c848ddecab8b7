"""The driver of NATS JetStream's push consumer: streams in files, every message acknowledged by the application."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable

import nats
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from bench.peers.drive_nats import IN_FLIGHT, JetStream
from bench.peers.driving import TIMEOUT_S, Asked, main
from bench.peers.looping import modes

UNACKNOWLEDGED = 1_000
"""As many as push grants."""


class _Pushed(JetStream):
    async def subscribe(self, on_payload: Callable[[bytes], None], *, is_from_start: bool) -> None:
        async def on_message(message: Msg) -> None:
            on_payload(message.data)
            await message.ack()

        await self.context.subscribe(
            self.name,
            cb=on_message,
            manual_ack=True,
            durable="bench",
            deliver_policy=DeliverPolicy.ALL if is_from_start else DeliverPolicy.NEW,
            config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=UNACKNOWLEDGED),
        )


@contextlib.asynccontextmanager
async def _connected(asked: Asked) -> AsyncIterator[_Pushed]:
    connection = await nats.connect(f"nats://{asked.address}", allow_reconnect=False)
    try:
        yield _Pushed(connection.jetstream(timeout=TIMEOUT_S, publish_async_max_pending=IN_FLIGHT), asked.topic)
    finally:
        await connection.close()


MODES = modes(_connected)

if __name__ == "__main__":
    sys.exit(main(("nats-py",), MODES, sys.argv[1:]))
