"""Planned faults: each kind strikes as often as planned, and clients see what a failing broker would show."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.servers.kafka.raw import RawClient
from tests.testing.clients import SECONDS, consume, consumer, produce, producer

from qanat.api.api_table import SERVED
from qanat.testing import EmbeddedBroker, ErrorCode
from qanat.testing.error_responses import error_response
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey


@pytest.fixture
def broker(qanat_broker: EmbeddedBroker) -> EmbeddedBroker:
    qanat_broker.create_topic("t")
    return qanat_broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


def topics(client: RawClient, version: int = 9) -> list[tuple[str | None, int]]:
    response = client.ask(ApiKey.METADATA, version, MetadataRequest([MetadataRequestTopic(name="t")]))
    return [(topic.name, topic.error_code) for topic in response.topics]


def test_a_delay_strikes_as_often_as_told(broker: EmbeddedBroker, client: RawClient) -> None:
    fault = broker.delay("Metadata", 0.1, times=2)
    took = []
    for _ in range(3):
        began = time.monotonic()
        topics(client)
        took.append(time.monotonic() - began >= 0.1)

    assert took == [True, True, False]
    assert fault.struck == 2
    assert fault.is_over


def test_a_dropped_request_closes_the_connection_without_effect(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.drop("Metadata")

    with pytest.raises((EOFError, ConnectionResetError)):
        client.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="new")]))

    assert broker.topics() == ["t"]


def test_what_was_sent_behind_a_dropped_request_is_dropped_too(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.delay("ApiVersions", 0.1)
    broker.drop("Metadata")
    client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    client.send(ApiKey.METADATA, 9, MetadataRequest([]))
    client.send(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="new")]))
    with pytest.raises((EOFError, ConnectionResetError)):
        client._exactly(10_000)

    assert broker.topics() == ["t"]


def test_a_lost_answer_leaves_the_effect(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.lose_answer("Metadata")

    with pytest.raises((EOFError, ConnectionResetError)):
        client.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="new")]))

    assert broker.topics() == ["new", "t"]


def test_a_refusal_comes_once_and_changes_nothing(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.fail("Metadata", ErrorCode.LEADER_NOT_AVAILABLE)

    assert topics(client) == [("t", ErrorCode.LEADER_NOT_AVAILABLE)]
    assert topics(client) == [("t", 0)]


def test_plans_come_true_in_the_order_in_which_they_were_made(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.fail("Metadata", ErrorCode.LEADER_NOT_AVAILABLE)
    broker.fail("Metadata", ErrorCode.BROKER_NOT_AVAILABLE)

    assert [topics(client)[0][1] for _ in range(3)] == [5, 8, 0]


def test_healing_forgets_what_has_not_struck(broker: EmbeddedBroker, client: RawClient) -> None:
    fault = broker.fail("Metadata", ErrorCode.LEADER_NOT_AVAILABLE, times=5)
    topics(client)
    broker.heal()

    assert topics(client) == [("t", 0)]
    assert repr(fault) == "<Fault: Metadata refused with LEADER_NOT_AVAILABLE, 1 of 5 times so far>"


def test_an_unknown_api_is_an_error_with_a_suggestion(broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match="no API 'Prduce' is served; did you mean 'Produce'"):
        broker.drop("Prduce")


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_every_api_can_be_refused_in_every_version(broker: EmbeddedBroker, served: object) -> None:
    from qanat.api.api_table import ServedApi
    from qanat.api.request_context import RequestContext

    assert isinstance(served, ServedApi)
    module = __import__(f"qanat.wire.kafka.messages.{served.api.module}", fromlist=["x"])
    request = getattr(module, f"{served.api.name}Request")()
    if served.key is ApiKey.PRODUCE:
        request.acks = 1
    context = RequestContext(broker.node.broker, None, None)  # type: ignore[arg-type]
    response = error_response(served.key, request, context, ErrorCode.UNKNOWN_SERVER_ERROR)

    for version in range(served.first_version, served.last_version + 1):
        assert served.api.codec.write_response(response, version) is not None


def test_librdkafka_produces_once_although_the_answer_was_lost(broker: EmbeddedBroker) -> None:
    lost = broker.lose_answer("Produce")
    produce(broker, "t", b"once", **{"enable.idempotence": True, "retry.backoff.ms": 10})

    assert lost.is_over
    assert [record.value for record in broker.records("t")] == [b"once"]


def test_librdkafka_retries_a_refused_produce(broker: EmbeddedBroker) -> None:
    broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    produce(broker, "t", b"at last", **{"retry.backoff.ms": 10, "topic.metadata.refresh.fast.interval.ms": 10})

    assert [record.value for record in broker.records("t")] == [b"at last"]


def test_librdkafka_consumes_although_fetches_are_dropped(broker: EmbeddedBroker) -> None:
    produce(broker, "t", b"x")
    dropped = broker.drop("Fetch", times=2)

    assert consume(broker, "t", 1, group="g") == [b"x"]
    assert dropped.is_over


def test_a_refused_topic_is_not_created(broker: EmbeddedBroker) -> None:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    broker.fail("CreateTopics", ErrorCode.POLICY_VIOLATION)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        admin.create_topics([NewTopic("refused", 1, 1)])["refused"].result(SECONDS)

    assert broker.topics() == ["t"]


def test_a_group_can_be_made_to_rebalance_and_a_member_thrown_out(broker: EmbeddedBroker) -> None:
    assigned: list[int] = []
    reader = consumer(broker, "g")
    reader.subscribe(["t"], on_assign=lambda _, partitions: assigned.append(len(partitions)))

    def until_assigned(times: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(assigned) < times and time.monotonic() < deadline:
            reader.poll(0.05)
        assert len(assigned) == times

    until_assigned(1)
    (first,) = broker.members("g")
    broker.force_rebalance("g")
    until_assigned(2)
    assert broker.members("g") == [first]

    broker.expire_session("g", first)
    until_assigned(3)
    (second,) = broker.members("g")
    assert second != first
    reader.close()


def test_only_members_can_be_thrown_out_and_only_stable_groups_disturbed(broker: EmbeddedBroker) -> None:
    with pytest.raises(LookupError, match="group 'g' has no member 'nobody'; its members are \\[\\]"):
        broker.expire_session("g", "nobody")
    with pytest.raises(LookupError, match="only a stable group can be made to rebalance"):
        broker.force_rebalance("g")


def test_a_client_survives_a_restart(broker: EmbeddedBroker) -> None:
    sender = producer(broker, **{"reconnect.backoff.ms": 10, "retry.backoff.ms": 10})
    sender.produce("t", b"before")
    assert sender.flush(SECONDS) == 0
    broker.restart(down_seconds=0.1)
    sender.produce("t", b"after")

    assert sender.flush(SECONDS) == 0
    assert [record.value for record in broker.records("t")] == [b"before", b"after"]
