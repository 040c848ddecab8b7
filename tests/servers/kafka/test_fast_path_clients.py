"""Clients as they are released take the fast paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.kafka.fetch_fast_path import FetchFastPath
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.registry import ApiKey

TOPIC, WAIT_S = "orders", 30


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC)
        broker.node.listener.dispatcher.interceptor = None  # Planned faults switch the fast paths off.
        yield broker


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The APIs of requests that took the ordinary path."""
    taken: list[int] = []
    handle = Dispatcher._handle

    def watched(self: Dispatcher, frame: memoryview, *arguments: Any) -> Any:
        taken.append(int.from_bytes(frame[:2]))
        return handle(self, frame, *arguments)

    monkeypatch.setattr(Dispatcher, "_handle", watched)
    return taken


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of the fetches that took the fast path."""
    taken: list[int] = []
    try_handle = FetchFastPath.try_handle

    def watched(self: FetchFastPath, frame: memoryview, *arguments: Any) -> Any:
        outcome = try_handle(self, frame, *arguments)
        if outcome is not None:
            taken.append(int.from_bytes(frame[2:4]))
        return outcome

    monkeypatch.setattr(FetchFastPath, "try_handle", watched)
    return taken


def test_produces_and_fetches_of_librdkafka(ordinary: list[int], fast: list[int], broker: EmbeddedBroker) -> None:
    options = {"bootstrap.servers": broker.bootstrap_servers}
    producer, consumer = Producer(options), Consumer({**options, "group.id": "g", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    for number in range(3):
        producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(WAIT_S) == 0
        (message,) = consumer.consume(1, WAIT_S)
        assert message.value() == b"%d" % number
    consumer.close()

    assert (ApiKey.PRODUCE in ordinary, ApiKey.FETCH in ordinary) == (False, False)
    assert len(fast) >= 3
    assert min(fast) >= 16
