"""Follows the calls of writes and of waiting reads through every server, and prints them as `followed_calls` does.

Every topic flushes and an authorizer decides, so that each request is appended, acknowledged, authorized and accounted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from tests.architecture.followed_calls import (
    LONG_MS,
    TOPIC,
    Call,
    Client,
    Follower,
    fetch,
    framed,
    import_sources_only,
    produce,
)

SHARE_FETCH, SHARE_ACKNOWLEDGE, SHARE_VERSION = 78, 79, 2
PARKED = "qanat.broker.replicas.parked_fetch:ParkedFetch.__init__"
RECORD = b'{"topic": "orders", "partition": 0, "value": 1}'
Act = Callable[[], Awaitable[object]]


class ShareMember:
    """A member of a share group on a Kafka connection."""

    def __init__(self, broker: Any, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._topic_id = broker.metadata.image.topics[TOPIC].identity.value.bytes
        self._epoch = 0

    async def fetch(self, wait_ms: int = 0) -> None:
        from qanat.wire.kafka.messages import share_fetch as codec

        rows = [codec.FetchPartition(0)] if not self._epoch else []
        request = codec.ShareFetchRequest(
            self._group,
            "member",
            self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=[codec.FetchTopic(self._topic_id, rows)] if rows else [],
        )
        await self._ask(SHARE_FETCH, codec.write_request(request, SHARE_VERSION))

    async def accept(self, offset: int) -> None:
        from qanat.wire.kafka.messages import share_acknowledge as codec

        rows = [codec.AcknowledgePartition(0, [codec.AcknowledgementBatch(offset, offset, [1])])]
        topics = [codec.AcknowledgeTopic(self._topic_id, rows)]
        request = codec.ShareAcknowledgeRequest(self._group, "member", self._epoch, topics=topics)
        await self._ask(SHARE_ACKNOWLEDGE, codec.write_request(request, SHARE_VERSION))

    async def _ask(self, key: int, body: list[Any]) -> None:
        self._client.send(framed(key, SHARE_VERSION, body))
        self._epoch += 1
        await self._client.answered()


class PushClient:
    """A push client whose socket is played."""

    def __init__(self, broker: Any, security: Any) -> None:
        from tests.servers.test_connection import PlayedTransport

        from qanat.security.authentication import ANONYMOUS
        from qanat.servers.kafka.dispatch import Dispatcher
        from qanat.servers.push.server import PushServer

        class Transport(PlayedTransport):
            def write(self, data: bytes) -> None:
                self.sent.append(data)

        endpoint: Any = SimpleNamespace(name="", protocol="", security=security, is_authorized=True)
        self._transport: Any = Transport()
        self._connection = PushServer(broker, Dispatcher(broker)).accept(endpoint, ANONYMOUS)
        self._connection.connection_made(cast(asyncio.BaseTransport, self._transport))

    async def ask(self, frame: bytes) -> None:
        self._connection.get_buffer(-1)[: len(frame)] = frame
        self._connection.buffer_updated(len(frame))
        async with asyncio.timeout(30):
            while not self._transport.sent:  # noqa: ASYNC110 - the transport is played
                await asyncio.sleep(0)
        assert b"error" not in self._transport.everything, self._transport.everything
        self._transport.sent.clear()

    async def open(self) -> None:
        from qanat.wire.push.control import Heartbeat, encode_control
        from qanat.wire.push.frames import FrameType, encode_frame

        await self.ask(encode_frame(FrameType.HEARTBEAT, 1, encode_control(Heartbeat(1, topics=[TOPIC]))))

    async def produce(self) -> None:
        from qanat.wire.push.data import PushedRecord, encode_record
        from qanat.wire.push.frames import FrameType, encode_frame

        data = encode_record(PushedRecord(0, 0, -1, -1, 1_000, None, b"value", ()))
        await self.ask(encode_frame(FrameType.DATA, 2, data))


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Any, Any, Any]]:
    """A broker, its HTTP server, and the security that both have."""
    from tests.servers.http.http_here import HttpHere

    from qanat.servers.listener_security import ListenerSecurity
    from qanat.testing import BrokerHere

    class AllowsAll:
        def allows(self, *_: object) -> bool:
            return True

    security = ListenerSecurity(authorizer=AllowsAll())
    async with BrokerHere() as here, HttpHere(here, security) as http:
        await here.create_topic(TOPIC, 2, {"flush.messages": 1})
        yield here.node.broker, http, security


class Scenarios:
    """Writes and waiting reads over every server."""

    def __init__(self, broker: Any, http: Any, security: Any, group: str) -> None:
        self._broker, self._http = broker, http
        self._writer, self._reader = Client(broker, security), Client(broker, security)
        self._member = ShareMember(broker, Client(broker, security), group)
        self._push = PushClient(broker, security)
        self.followed: dict[str, list[Call]] = {}

    def _end(self, partition: int = 0) -> int:
        end_offset: int = self._broker.lookup.led(TOPIC, partition).log.end_offset
        return end_offset

    async def run(self) -> None:
        for path, partitions in (("fast", (0,)), ("ordinary", (0, 1))):
            await self._follow(f"Produce, {path} path", partial(self._ask, self._writer, produce(*partitions)))
            more = {number: self._end(number) for number in partitions}
            await self._follow_waiting(f"Fetch, {path} path", partial(self._ask, self._reader, fetch(more, LONG_MS)))
        await self._follow("HTTP produce, fast path", lambda: self._call("POST", "/produce", RECORD))
        await self._follow("HTTP produce, ordinary path", lambda: self._call("POST", f"/produce?topic={TOPIC}", RECORD))
        many = b'{"records": [%s, %s]}' % (RECORD, RECORD)
        await self._follow("HTTP produce, several records", lambda: self._call("POST", "/produce", many))
        target = f"/consume?topic={TOPIC}&partition=0&offset={self._end()}&timeout_ms={LONG_MS}"
        await self._follow_waiting("HTTP consume, which makes a Fetch", lambda: self._call("GET", target))
        await self._member.fetch()
        await self._follow_waiting("ShareFetch", lambda: self._member.fetch(LONG_MS))
        await self._follow("ShareAcknowledge", lambda: self._member.accept(self._end() - 1))
        await self._push.open()
        await self._follow("push produce", self._push.produce)

    async def _ask(self, client: Client, frame: bytes) -> None:
        client.send(frame)
        await client.answered()

    async def _call(self, method: str, target: str, body: bytes = b"") -> None:
        answer = await self._http.request(method, target, body)
        assert answer.status == 200, answer

    async def _follow(self, name: str, act: Act) -> None:
        follower = Follower()
        sys.setprofile(follower.on_event)
        try:
            await act()
        finally:
            sys.setprofile(None)
        self.followed[name] = list(follower.calls)

    async def _follow_waiting(self, name: str, act: Act) -> None:
        """Follow a read that waits until something is written behind it."""
        follower = Follower()
        sys.setprofile(follower.on_event)
        try:
            async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
                tasks.create_task(act())  # type: ignore[arg-type]
                while all(callee != PARKED for _, callee in follower.calls):  # noqa: ASYNC110 - it is a call
                    await asyncio.sleep(0.001)
                sys.setprofile(None)
                self._writer.send(produce(0))
                sys.setprofile(follower.on_event)
                await self._writer.answered()
        finally:
            sys.setprofile(None)
        self.followed[name] = list(follower.calls)


async def follow() -> dict[str, list[Call]]:
    async with running() as (broker, http, security):
        # The first round imports the handlers, and makes the internal topics.
        await Scenarios(broker, http, security, "first").run()
        scenarios = Scenarios(broker, http, security, "second")
        await scenarios.run()
        return scenarios.followed


if __name__ == "__main__":
    import_sources_only()
    json.dump(asyncio.run(follow()), sys.stdout)
