"""A slow request is logged with its client, whichever server and path it takes: all count by one accounting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.servers.http.http_here import AGENT, HttpHere, fast_paths
from tests.servers.kafka.producer_here import CLIENT_ID, TOPIC, ProducerHere, one_batch, produce_frame
from tests.servers.push.push_peer import PushPeer, control

from qanat.log.flush_state import FlushJob
from qanat.model.error_codes import ErrorCode
from qanat.servers.http.operation_table import OPERATIONS
from qanat.telemetry.events import FIELDS
from qanat.testing import BrokerHere
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Ack, Heartbeat, Producer
from qanat.wire.push.data import PushedRecord, batches_front, encode_record
from qanat.wire.push.frames import FrameType

SLOW_MS = 50
Slow = Callable[[], list[dict[str, Any]]]


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
        producer = ProducerHere(broker, is_fast=is_fast)
        delay_fsync(monkeypatch)
        producer.send(produce_frame(one_batch()))
        await producer.answer()

    (fields,) = slow()
    assert (fields["api"], fields["client"], fields["peer"]) == ("Produce", CLIENT_ID, producer.connection.peer)
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
        producer = ProducerHere(broker, is_fast=is_fast)
        log = broker.node.broker.local_replicas.writable[TOPIC, 0].log
        write = type(log.active.file).write

        def slowly(*arguments: Any) -> Any:
            time.sleep(2 * SLOW_MS / 1000)
            return write(*arguments)

        monkeypatch.setattr(type(log.active.file), "write", slowly)
        producer.send(produce_frame(one_batch(), acks=acks))
        if acks:
            await producer.answer()

    (fields,) = slow()
    assert (fields["api"], fields["client"]) == ("Produce", CLIENT_ID)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "ordinary path"])
async def test_a_quick_produce_is_not_logged(is_fast: bool, slow: Slow) -> None:
    async with BrokerHere(settings={"slow.request.ms": 30_000}) as broker:
        await broker.create_topic(TOPIC, configs={"flush.messages": 1})
        producer = ProducerHere(broker, is_fast=is_fast)
        producer.send(produce_frame(one_batch()))
        await producer.answer()

    assert slow() == []


# HTTP

RECORD = {"topic": TOPIC, "key": "k", "value": 1}
PRODUCES = {
    "fast path": ("/produce", RECORD, "produce"),
    "ordinary path": (f"/produce?topic={TOPIC}", RECORD, "produce"),
    "several records": (f"/api/v1/topics/{TOPIC}/records", [RECORD, RECORD], "produce_to_topic"),
}


@pytest.mark.parametrize("form", PRODUCES)
async def test_a_produce_over_http_that_waits_long_for_the_disk_is_logged(
    form: str, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    target, records, operation = PRODUCES[form]
    body = msgspec.json.encode(records)
    taken = fast_paths(monkeypatch)
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker, HttpHere(broker) as http:
        await broker.create_topic(TOPIC, configs={"flush.messages": 1})
        delay_fsync(monkeypatch)
        answer = await http.request("POST", target, body)

    assert (answer.status, any(taken)) == (200, form == "fast path")
    (fields,) = slow()
    assert (fields["api"], fields["client"]) == (f"HTTP {operation}", AGENT)
    assert fields["peer"].startswith("127.0.0.1:")
    assert fields["took_ms"] >= 2 * SLOW_MS
    counters = http.context.counters
    assert counters.answered == {(operation, 200): 1}
    counted = counters.requests
    assert (counted.requests, counted.request_bytes, counted.response_bytes) == (1, len(body), len(answer.body))
    assert counted.duration_s.count == 1
    kafka = http.dispatcher.counters.by_api
    assert sum(one.requests for one in kafka.values()) == 0, "what HTTP asks of handlers is not counted again"


async def test_a_consume_over_http_waits_for_records_by_design(slow: Slow) -> None:
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker, HttpHere(broker) as http:
        await broker.create_topic(TOPIC)
        answer = await http.request("GET", f"/consume?topic={TOPIC}&timeout_ms={3 * SLOW_MS}")

    assert answer.status == 200
    counted = http.context.counters.requests
    assert (counted.requests, counted.response_bytes) == (1, len(answer.body))
    assert counted.duration_s.total >= 3 * SLOW_MS / 1000
    assert sum(one.requests for one in http.dispatcher.counters.by_api.values()) == 0, "its Fetch is part of it"
    assert slow() == []


async def test_what_does_not_wait_by_design_is_logged_where_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker, HttpHere(broker) as http:
        changes = broker.node.broker.metadata_changes
        create = changes.create_topic

        async def slowly(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(2 * SLOW_MS / 1000)
            return await create(*arguments, **named)

        monkeypatch.setattr(changes, "create_topic", slowly)
        answer = await http.request("POST", "/api/v1/topics", b'{"name": "slow"}')

    assert answer.status == 201
    assert [one["api"] for one in slow()] == ["HTTP create_topic"]


def test_operations_of_http_that_wait_by_design() -> None:
    """Those whose clients say how long they wait for something; a write waits for the disk alone."""
    assert sorted({one.name for one in OPERATIONS if one.is_long_poll}) == [
        "acquire",
        "consume",
        "pull",
        "read_as_member",
        "read_topic",
        "stream_topic",
        "subscribe",
        "topology",
    ]


# Push


PUSHED = {
    "plain": encode_record(PushedRecord(0, 0, -1, -1, 1_000, None, b"value", ())),
    "idempotent": encode_record(PushedRecord(0, 0, -1, 0, 1_000, None, b"value", ())),
    "closed batch": batches_front(0, 0, -1, -1, -1) + bytes(one_batch()),
}


@pytest.mark.parametrize("form", PUSHED)
async def test_a_produce_over_push_that_waits_long_for_the_disk_is_logged(
    form: str, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    frame = PUSHED[form]
    async with BrokerHere(settings={"slow.request.ms": SLOW_MS}) as broker, PushPeer(broker) as producer:
        await broker.create_topic(TOPIC, configs={"flush.messages": 1})
        identity = Producer() if form == "idempotent" else None
        await producer.ask(Heartbeat(1, client=CLIENT_ID, topics=[TOPIC], producer=identity))
        delay_fsync(monkeypatch)
        producer.send(FrameType.DATA, frame)
        acknowledged = control(Ack, await producer.expect(FrameType.ACK))
        counted = broker.node.broker.counters.pushed

    assert (acknowledged.error, acknowledged.offset) == ("", 0)
    (fields,) = slow()
    assert (fields["api"], fields["client"]) == ("push produce", CLIENT_ID)
    assert fields["peer"].startswith("127.0.0.1:")
    assert fields["took_ms"] >= 2 * SLOW_MS
    assert (counted.requests, counted.request_bytes, counted.parked, counted.errors) == (1, len(frame), 0, {})
    assert counted.duration_s.count == 1


async def test_refused_records_of_push_are_counted_with_their_errors() -> None:
    async with BrokerHere() as broker, PushPeer(broker) as producer:
        await broker.create_topic(TOPIC, configs={"max.message.bytes": 200})
        await producer.ask(Heartbeat(1, topics=[TOPIC]))
        large, elsewhere, good = (
            encode_record(PushedRecord(0, partition, -1, -1, 1_000, None, value, ()))
            for partition, value in ((0, b"x" * 300), (7, b"v"), (0, b"v"))
        )
        for frame in (large, elsewhere, good):
            producer.send(FrameType.DATA, frame)
            await producer.expect(FrameType.ACK)
        counted = broker.node.broker.counters.pushed

    assert counted.errors == {ErrorCode.MESSAGE_TOO_LARGE: 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}
    assert (counted.requests, counted.request_bytes) == (3, len(large) + len(elsewhere) + len(good))
    assert (counted.parked, counted.duration_s.count) == (0, 3)
