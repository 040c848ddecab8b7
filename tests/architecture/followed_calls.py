"""Follows the calls of produces and fetches through a broker, and prints them as JSON: scenario, caller, callee.

Run as a program, so that every module of `qanat` is interpreted, also where compiled ones lie beside their sources: a
compiled function has no frame to follow.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"
PRODUCE_VERSION, FETCH_VERSION = 9, 11
"""Versions that have a fast path."""
LONG_MS = 60_000

Call = tuple[str, str]
"""Caller and callee, each as `qanat.module:function`; the caller is empty where the event loop or the client calls."""


def import_sources_only() -> None:
    """Let nothing of `qanat` come from a compiled module."""

    def finder(path: str) -> FileFinder:
        if not Path(path).is_relative_to(ROOT / "src" / "qanat"):
            raise ImportError
        return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


def name_of(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '')}:{frame.f_code.co_qualname}"


class Follower:
    """Records every call of a function of `qanat`, with the nearest function of `qanat` below it on the stack."""

    def __init__(self) -> None:
        self.calls: dict[Call, None] = {}

    def on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_globals.get("__name__", "").startswith("qanat."):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_globals.get("__name__", "").startswith("qanat."):
            caller = caller.f_back
        self.calls["" if caller is None else name_of(caller), name_of(frame)] = None


class Client:
    """A Kafka client whose socket is played, behind an authorizer where `security` has one."""

    def __init__(self, broker: Any, security: Any = None) -> None:
        from tests.servers.test_connection import PlayedTransport

        from qanat.api.interceptor import authorize
        from qanat.servers.kafka.connection import KafkaConnection
        from qanat.servers.kafka.connection_limits import ConnectionLimits
        from qanat.servers.kafka.dispatch import Dispatcher

        self.faults: list[BaseException] = []
        self.transport = PlayedTransport()
        dispatcher = Dispatcher(broker)
        dispatcher.interceptor = None if security is None else authorize
        self.connection = KafkaConnection(
            dispatcher.handle,
            ConnectionLimits(100_000, 100, 1_000_000),
            lambda _: None,
            lambda _, fault: self.faults.append(fault),
        )
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        self.connection.security = security

    def send(self, frame: bytes) -> None:
        self.connection.get_buffer(-1)[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))

    async def answered(self) -> None:
        async with asyncio.timeout(30):
            while not self.transport.sent:
                assert not self.faults, self.faults
                await asyncio.sleep(0)
        self.transport.sent.clear()


def framed(key: int, version: int, body: list[Any]) -> bytes:
    from qanat.wire.kafka.headers import frame_request

    return b"".join(bytes(chunk) for chunk in frame_request(key, version, 77, "client", body))


def produce(*partitions: int) -> bytes:
    from qanat.wire.kafka.messages import produce as codec
    from qanat.wire.records import Record, encode_batch

    data = [
        codec.PartitionProduceData(number, memoryview(encode_batch([Record(0, 0, None, b"value")])))
        for number in partitions
    ]
    request = codec.ProduceRequest(None, -1, 30_000, [codec.TopicProduceData(TOPIC, partition_data=data)])
    return framed(0, PRODUCE_VERSION, codec.write_request(request, PRODUCE_VERSION))


def fetch(offsets: dict[int, int], wait_ms: int = 0) -> bytes:
    from qanat.wire.kafka.messages import fetch as codec

    rows = [
        codec.FetchPartition(number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in offsets.items()
    ]
    request = codec.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, session_epoch=-1, topics=[codec.FetchTopic(TOPIC, partitions=rows)]
    )
    return framed(1, FETCH_VERSION, codec.write_request(request, FETCH_VERSION))


@asynccontextmanager
async def running() -> AsyncIterator[Any]:
    from qanat.testing import BrokerHere

    async with BrokerHere() as here:
        # Every acknowledgement waits for the disk, so that its completion is followed as well.
        await here.create_topic(TOPIC, 2, {"flush.messages": 1})
        yield here.node.broker


class Scenarios:
    """Produces and fetches over the fast paths and the ordinary ones, answered at once and parked."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._writer, self._reader = Client(broker), Client(broker)
        self.followed: dict[str, list[Call]] = {}

    async def run(self) -> None:
        writer, reader = self._writer, self._reader
        await self._follow("produce, fast path", [(writer, produce(0))])
        await self._follow("produce, ordinary path", [(writer, produce(0, 1))])
        await self._follow("fetch, fast path", [(reader, fetch({0: 0}))])
        await self._follow("fetch, ordinary path", [(reader, fetch({0: 0, 1: 0}))])
        # A fetch at the end of partitions waits until one of them is appended to.
        await self._follow("parked fetch, fast path", [(reader, self._fetch_more(1)), (writer, produce(1))])
        await self._follow("parked fetch, ordinary path", [(reader, self._fetch_more(0, 1)), (writer, produce(1))])

    async def _follow(self, name: str, requests: list[tuple[Client, bytes]]) -> None:
        follower = Follower()
        sys.setprofile(follower.on_event)
        try:
            for client, frame in requests:
                client.send(frame)
            for client, _ in requests:
                await client.answered()
        finally:
            sys.setprofile(None)
        self.followed[name] = list(follower.calls)

    def _fetch_more(self, *partitions: int) -> bytes:
        ends = {number: self._broker.lookup.led(TOPIC, number).log.end_offset for number in partitions}
        return fetch(ends, LONG_MS)


async def follow() -> dict[str, list[Call]]:
    async with running() as broker:
        # The first round imports the handlers.
        await Scenarios(broker).run()
        scenarios = Scenarios(broker)
        await scenarios.run()
        return scenarios.followed


if __name__ == "__main__":
    import_sources_only()
    json.dump(asyncio.run(follow()), sys.stdout)
