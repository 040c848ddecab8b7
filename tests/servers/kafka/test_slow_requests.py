"""A slow request is logged with its client, whichever path it takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.servers.kafka.producer_here import CLIENT_ID, TOPIC, ProducerHere, one_batch, produce_frame

from qanat.log.flush_state import FlushJob
from qanat.telemetry.events import FIELDS
from qanat.testing import BrokerHere
from qanat.wire.kafka.registry import ApiKey

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
