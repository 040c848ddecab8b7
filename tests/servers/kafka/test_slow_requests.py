"""A slow request is logged with its client, whichever path it takes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.servers.test_connection import PlayedTransport

from qanat.api.api_table import ServedApi
from qanat.api.request_context import RequestContext
from qanat.log.flush_state import FlushJob
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.telemetry.events import FIELDS
from qanat.testing import BrokerHere
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

TOPIC = "orders"
VERSION = 9
SLOW_MS = 50
Slow = Callable[[], list[dict[str, Any]]]


def _handled(served: ServedApi, request: Any, context: RequestContext) -> Any:
    return served.handle(request, context)


def produce(acks: int) -> bytes:
    batch = encode_batch([Record(0, 0, None, b"value")])
    data = PartitionProduceData(0, memoryview(batch))
    request = ProduceRequest(None, acks, 30_000, [TopicProduceData(TOPIC, partition_data=[data])])
    return b"".join(map(bytes, frame_request(0, VERSION, 1, "me", write_request(request, VERSION))))


class Producer:
    """A producer's connection, whose socket is played."""

    def __init__(self, broker: BrokerHere, *, is_fast: bool) -> None:
        self.dispatcher = Dispatcher(broker.node.broker)
        if not is_fast:
            self.dispatcher.interceptor = _handled
        self.transport = PlayedTransport()
        limits = ConnectionLimits(10_000, 100, 100_000)
        self.connection = KafkaConnection(self.dispatcher.handle, limits, lambda _: None, lambda _, fault: None)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    async def produce(self, acks: int = -1) -> None:
        data = produce(acks)
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))
        async with asyncio.timeout(30):
            while acks and not self.transport.everything:  # noqa: ASYNC110 - the transport is played
                await asyncio.sleep(0.001)


@pytest.fixture
def slow(caplog: pytest.LogCaptureFixture) -> Slow:
    """The fields of every slow request that was logged."""
    caplog.set_level(logging.WARNING, "qanat")
    return lambda: [getattr(one, FIELDS) for one in caplog.records if one.getMessage() == "slow request"]


def delay_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    run = FlushJob.run

    def slowly(job: FlushJob) -> None:
        time.sleep(2 * SLOW_MS / 1000)
        run(job)

    monkeypatch.setattr(FlushJob, "run", slowly)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "ordinary path"])
async def test_a_produce_that_waits_long_for_the_disk_is_logged(
    is_fast: bool, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker:
        await broker.create_topic(TOPIC, configs={"flush.messages": 1})
        producer = Producer(broker, is_fast=is_fast)
        delay_fsync(monkeypatch)
        await producer.produce()

    (fields,) = slow()
    assert (fields["api"], fields["client"], fields["peer"]) == ("Produce", "me", producer.connection.peer)
    assert fields["took_ms"] >= 2 * SLOW_MS
    counters = producer.dispatcher.counters.by_api[ApiKey.PRODUCE]
    assert (counters.requests, counters.parked, counters.duration_s.count) == (1, 0, 1)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "ordinary path"])
@pytest.mark.parametrize("acks", [1, 0])
async def test_a_produce_that_is_appended_slowly_is_logged(
    is_fast: bool, acks: int, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker:
        await broker.create_topic(TOPIC)
        producer = Producer(broker, is_fast=is_fast)
        log = broker.node.broker.local_replicas.writable[TOPIC, 0].log
        write = type(log.active.file).write

        def slowly(*arguments: Any) -> Any:
            time.sleep(2 * SLOW_MS / 1000)
            return write(*arguments)

        monkeypatch.setattr(type(log.active.file), "write", slowly)
        await producer.produce(acks)

    (fields,) = slow()
    assert (fields["api"], fields["client"]) == ("Produce", "me")


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "ordinary path"])
async def test_a_quick_produce_is_not_logged(is_fast: bool, slow: Slow) -> None:
    async with BrokerHere(settings={"slow.request.ms": 30_000}) as broker:
        await broker.create_topic(TOPIC, configs={"flush.messages": 1})
        await Producer(broker, is_fast=is_fast).produce()

    assert slow() == []
