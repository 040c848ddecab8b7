"""A topic that is not there: how long a client that may create it waits, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.model.error_codes import ErrorCode
from qanat.testing.simulation.loop import SimLoop
from qanat.wire.kafka.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


class Answering(Cluster):
    """A cluster whose brokers know `others`, and the wanted topic from a given time on."""

    def __init__(self, made_at_s: float) -> None:
        super().__init__([("localhost", 9092)])
        self._made_at_s = made_at_s
        self._was_reached = True

    async def metadata(
        self, topics: Sequence[str] | None, deadline: Deadline, *, may_create: bool = False
    ) -> MetadataResponse:
        if topics is None:
            return MetadataResponse(topics=[MetadataResponseTopic(name="orders")])
        (name,) = topics
        if asyncio.get_running_loop().time() < self._made_at_s:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponse(topics=[MetadataResponseTopic(error_code=code, name=name)])
        partition = MetadataResponsePartition(partition_index=0, leader_id=1)
        return MetadataResponse(topics=[MetadataResponseTopic(name=name, partitions=[partition])])


def asked(made_at_s: float, may_create: bool) -> tuple[TopicLeaders | RefusedError, float]:
    """The answer for the topic `order`, and how long it took."""
    loop = SimLoop(seed=1)

    async def scene() -> tuple[TopicLeaders | RefusedError, float]:
        began_s = loop.time()
        cluster = Answering(began_s + made_at_s)
        found: TopicLeaders | RefusedError
        try:
            found = await cluster.topic("order", Deadline.after(60), may_create=may_create)
        except RefusedError as fault:
            found = fault
        return found, loop.time() - began_s

    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(scene())
    finally:
        asyncio.set_event_loop(None)
        loop.abandon()


def test_a_topic_that_no_broker_makes_is_refused_long_before_the_deadline() -> None:
    fault, took_s = asked(made_at_s=3600, may_create=True)

    assert isinstance(fault, RefusedError)
    assert fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(fault).startswith("there is no topic order; did you mean orders?; the broker makes none on first use")
    assert 10 <= took_s < 12


@pytest.mark.parametrize("made_at_s", [0.0, 0.5, 8.0])
def test_a_topic_that_a_broker_makes_meanwhile_is_found(made_at_s: float) -> None:
    found, took_s = asked(made_at_s, may_create=True)

    assert isinstance(found, TopicLeaders)
    assert dict(found.leaders) == {0: 1}
    assert made_at_s <= took_s < made_at_s + 1.5


def test_a_client_that_may_not_create_it_is_refused_at_once() -> None:
    fault, took_s = asked(made_at_s=3600, may_create=False)

    assert isinstance(fault, RefusedError)
    assert str(fault) == "there is no topic order; did you mean orders?"
    assert took_s == 0
