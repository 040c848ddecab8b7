"""Writes to partitions of other brokers: written once, whatever becomes of requests and answers on their way.

The broker and its log are real; the gateway to them loses requests and answers by plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.connection.faults import UnreachableError
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.servers.http.caller import HttpCaller
from qanat.servers.http.kafka_gateway import KafkaGateway
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.forwarding import Forwarding
from qanat.servers.http.records.record_parsing import ProducerRecord
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdResponse
from qanat.wire.kafka.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from qanat.wire.kafka.registry import ApiKey


def response_with(code: ErrorCode) -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse(partition_responses=[PartitionProduceResponse(0, code)])])


class PlannedGateway(KafkaGateway):
    """The gateway of HTTP, with an outcome from a plan for each produce request; after the plan all arrive."""

    def __init__(self, node: ServedNode, plan: str = "", timeout_s: float = 20.0, has_ids: bool = True) -> None:
        assert node.node.http is not None
        context = node.node.http.context
        super().__init__(context.broker, node.node.listener.dispatcher, None, timeout_s)
        self.plan = plan.split()
        self.has_ids = has_ids
        self.asked = 0

    async def call(
        self,
        caller: HttpCaller,
        api_key: ApiKey,
        request: Any,
        node_id: int | None = None,
        *,
        at_most: int | None = None,
    ) -> Any:
        if api_key is ApiKey.INIT_PRODUCER_ID and not self.has_ids:
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if api_key is not ApiKey.PRODUCE:
            return await super().call(caller, api_key, request, node_id, at_most=at_most)
        self.asked += 1
        match self.plan.pop(0) if self.plan else "arrives":
            case "request-lost":
                raise UnreachableError("the connection broke")
            case "answer-lost":
                await super().call(caller, api_key, request, node_id)
                raise UnreachableError("the connection broke")
            case "replaced-after-append":
                await super().call(caller, api_key, request, node_id)
                return response_with(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case "not-leader":
                return response_with(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case "too-few":
                return response_with(ErrorCode.NOT_ENOUGH_REPLICAS)
            case "acknowledged-and-lost":
                return response_with(ErrorCode.NONE)
        return await super().call(caller, api_key, request, node_id)


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        yield running


def made(node: ServedNode, topic: str, **configs: str) -> TopicPartition:
    assert node.post("/api/v1/topics", {"name": topic, "partitions": 1, "configs": configs}).status == 201
    return TopicPartition(topic, 0)


def record(at: TopicPartition, value: object) -> ProducerRecord:
    return ProducerRecord(at.topic, None, str(value).encode(), (), 0, 0)


def values(node: ServedNode, at: TopicPartition) -> list[Any]:
    page = node.get(f"/consume?topic={at.topic}&partition=0&count=500").json
    return [message["value"] for message in page["messages"]]


@pytest.mark.parametrize(
    "plan",
    [
        "request-lost",
        "answer-lost",
        "replaced-after-append",
        "arrives answer-lost not-leader request-lost answer-lost",
        "answer-lost too-few too-few arrives request-lost not-leader answer-lost",
    ],
)
def test_a_record_whose_answer_did_not_come_is_sent_again_and_written_once(node: ServedNode, plan: str) -> None:
    at = made(node, f"once-{plan.replace(' ', '.')}")
    forwarding = Forwarding(PlannedGateway(node, plan))

    async def write() -> list[Any]:
        return [await forwarding.write(at, [record(at, number)], -1) for number in range(5)]

    assert node.run(write()) == [[number] for number in range(5)]
    assert values(node, at) == list(range(5))


def test_what_comes_while_a_batch_is_on_its_way_leaves_together(node: ServedNode) -> None:
    at = made(node, "together-lanes")
    way = PlannedGateway(node, "answer-lost answer-lost")
    forwarding = Forwarding(way)

    async def write() -> list[Any]:
        return await asyncio.gather(*(forwarding.write(at, [record(at, number)], -1) for number in range(50)))

    assert node.run(write()) == [[number] for number in range(50)]
    assert values(node, at) == list(range(50))
    assert way.asked < 10


def test_a_batch_that_is_refused_does_not_take_other_records_with_it(node: ServedNode) -> None:
    at = made(node, "refused-lanes", **{"max.message.bytes": "2000"})
    forwarding = Forwarding(PlannedGateway(node, "arrives"))
    large = [1, f'"{"x" * 5000}"', 2]

    async def write() -> list[Any]:
        await forwarding.write(at, [record(at, 0)], -1)
        return await forwarding.write(at, [record(at, value) for value in large], -1)

    first, second, third = node.run(write())
    assert (first, third) == (1, 2)
    assert (second.status, second.error) == (413, ErrorCode.MESSAGE_TOO_LARGE)
    assert values(node, at) == [0, 1, 2]


def test_who_leaves_a_record_in_doubt_says_so_and_goes_on(node: ServedNode) -> None:
    at = made(node, "doubt")
    way = PlannedGateway(node, "arrives " + "answer-lost " * 1000, timeout_s=0.3)
    forwarding = Forwarding(way)

    async def write() -> list[Any]:
        first = await forwarding.write(at, [record(at, 0)], -1)
        second = await forwarding.write(at, [record(at, 1)], -1)
        way.plan = []
        return [*first, *second, *await forwarding.write(at, [record(at, 2)], -1)]

    first, second, third = node.run(write())
    assert first == 0
    assert isinstance(second, Problem)
    assert (second.status, "not known" in second.detail) == (503, True)
    # The record in doubt was written, so the next one has the offset behind it; and it was taken for no repeat.
    assert third == 2
    assert values(node, at) == [0, 1, 2]


def test_a_leader_that_lost_what_it_acknowledged_alone_gets_the_next_record(node: ServedNode) -> None:
    at = made(node, "gap")
    forwarding = Forwarding(PlannedGateway(node, "arrives acknowledged-and-lost arrives"))

    async def write() -> list[Any]:
        hasty = [await forwarding.write(at, [record(at, number)], 1) for number in range(3)]
        return [*hasty, await forwarding.write(at, [record(at, 3)], -1)]

    assert node.run(write())[2:] == [[1], [2]]
    assert values(node, at) == [0, 2, 3]


def test_without_a_producer_id_a_record_is_sent_once_and_never_again(node: ServedNode) -> None:
    at = made(node, "nameless")
    forwarding = Forwarding(PlannedGateway(node, "arrives answer-lost", has_ids=False))

    async def write() -> list[Any]:
        return [await forwarding.write(at, [record(at, number)], -1) for number in range(3)]

    first, (second,), third = node.run(write())
    assert (first, third) == ([0], [2])
    assert (second.status, "not known" in second.detail) == (503, True)
    assert values(node, at) == [0, 1, 2]


def test_too_few_replicas_are_reported_at_once(node: ServedNode) -> None:
    at = made(node, "too-few")
    way = PlannedGateway(node, "too-few")

    (outcome,) = node.run(Forwarding(way).write(at, [record(at, 0)], -1))

    assert (outcome.status, outcome.error, way.asked) == (503, ErrorCode.NOT_ENOUGH_REPLICAS, 1)
    assert values(node, at) == []
