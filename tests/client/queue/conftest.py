"""A broker whose locks last two seconds, and queues on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.queue.queues import Queue

from qanat.testing import EmbeddedBroker


@pytest.fixture(scope="session")
def queue_broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "group.share.heartbeat.interval.ms": 200,
        "group.share.record.lock.duration.ms": 2_000,
        "share.coordinator.state.topic.num.partitions": 3,
        "group.share.max.heartbeat.interval.ms": 15_000,
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def queue(queue_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Queue:
    """A topic and a group of the test's own."""
    return Queue.made(queue_broker, request.node.name[:200])
