"""A producer's connection to a broker in this process, whose socket is played."""

from __future__ import annotations

import asyncio
from struct import unpack_from
from typing import Any, cast

from tests.servers.test_connection import PlayedTransport

from qanat.api.api_table import ServedApi
from qanat.api.request_context import RequestContext
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.testing import BrokerHere
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages import fetch
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

TOPIC = "orders"
CLIENT_ID = "me"


def _handled(served: ServedApi, request: Any, context: RequestContext) -> Any:
    return served.handle(request, context)


def one_batch(**fields: Any) -> bytearray:
    return encode_batch([Record(0, 0, None, b"value")], **fields)


def produce_frame(
    batch: bytes | bytearray,
    version: int = 9,
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
    topic: str = TOPIC,
    topic_id: bytes = ZERO_UUID,
) -> bytes:
    """A request of one batch, with its size."""
    data = PartitionProduceData(0, memoryview(batch))
    request = ProduceRequest(transactional_id, acks, timeout_ms, [TopicProduceData(topic, topic_id, [data])])
    return b"".join(map(bytes, frame_request(0, version, 1, CLIENT_ID, write_request(request, version))))


def fetch_frame(
    version: int = 11,
    *,
    topic: str = TOPIC,
    topic_id: bytes = ZERO_UUID,
    offset: int = 0,
    epoch: int = -1,
    room: int = 1 << 20,
    **fields: Any,
) -> bytes:
    """A request for the records of the topic from an offset on, with its size."""
    row = fetch.FetchPartition(0, epoch, fetch_offset=offset, partition_max_bytes=room)
    topics = [fetch.FetchTopic(topic, topic_id, [row])]
    request = fetch.FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, "topics": topics, **fields})
    return b"".join(map(bytes, frame_request(1, version, 1, CLIENT_ID, fetch.write_request(request, version))))


class ProducerHere:
    """A producer whose requests take the fast path where they can, or none of them."""

    def __init__(self, broker: BrokerHere, *, is_fast: bool = True) -> None:
        self.dispatcher = Dispatcher(broker.node.broker)
        if not is_fast:
            self.dispatcher.interceptor = _handled
        self.faults: list[BaseException] = []
        self.transport = PlayedTransport()
        limits = ConnectionLimits(10_000_000, 100, 100_000_000)
        self.connection = KafkaConnection(
            self.dispatcher.handle, limits, lambda _: None, lambda _, fault: self.faults.append(fault)
        )
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def send(self, data: bytes) -> None:
        while data:
            room = self.connection.get_buffer(-1)
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            self.connection.buffer_updated(len(part))

    async def settled(self) -> None:
        """Return once no answer waits, and all are sent."""
        async with asyncio.timeout(30):
            idle_turns = 0
            while idle_turns < 5:
                await asyncio.sleep(0)
                is_parked = any(one.parked for one in self.dispatcher.counters.by_api.values())
                idle_turns = 0 if is_parked else idle_turns + 1

    @property
    def is_over(self) -> bool:
        """Whether its connection has ended."""
        return bool(self.faults) or self.transport.is_closed

    @property
    def seen_faults(self) -> list[object]:
        """The faults that ended the connection, and whether the broker closed it."""
        return [[f"{type(one).__name__}: {one}" for one in self.faults], self.transport.is_closed]

    async def answer(self) -> bytes:
        """The next answer, with its size; waited for."""
        async with asyncio.timeout(30):
            while not self.transport.everything and not self.faults:  # noqa: ASYNC110 - the transport is played
                await asyncio.sleep(0)
        data = bytes(self.transport.everything)
        self.transport.sent.clear()
        assert not data or unpack_from(">i", data)[0] == len(data) - 4
        return data
