"""`AsyncPushProducer` and `PushProducer`: records with durable acknowledgements over the push protocol.

async with AsyncPushProducer("localhost:9092") as producer:
    place = await (await producer.send("prices", b"182.30", key=b"AAPL"))
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from qanat.client.io_loop import IoLoop
from qanat.client.push.sender import Sender
from qanat.client.push.settings import PushProducerSettings
from qanat.client.records import Headers, Metadata
from qanat.client.settings import Servers, read_settings


def _encoded(headers: Headers) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple((name.encode(), content) for name, content in headers)


class AsyncPushProducer:
    """Sends on the caller's event loop."""

    def __init__(self, servers: Servers, **settings: Any) -> None:
        self._sender = Sender(read_settings(PushProducerSettings, servers, settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[Metadata]:
        """Send a record, and wait only while too many are unanswered. The future has its place once it is durable."""
        return await self._sender.send(topic, value, key, partition, _encoded(headers))

    async def flush(self) -> None:
        """Wait until every record is answered; one that failed says so where it was sent."""
        await self._sender.flush()

    async def close(self) -> None:
        await self._sender.close()


class PushProducer:
    """The same for threads; its connection lives on a thread of its own."""

    def __init__(self, servers: Servers, **settings: Any) -> None:
        self._producer = AsyncPushProducer(servers, **settings)
        self._io = IoLoop.start("qanat-push-producer")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> Future[Metadata]:
        """Send a record; `result()` of the answer waits until it is durable."""

        async def sent() -> Metadata:
            return await (await self._producer.send(topic, value, key=key, partition=partition, headers=headers))

        return self._io.submit(sent())

    def flush(self) -> None:
        """Wait until every record is answered."""
        self._io.submit(self._producer.flush()).result()

    def close(self) -> None:
        self._io.submit(self._producer.close()).result()
        self._io.close()
