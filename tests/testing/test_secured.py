"""Brokers with users and ACLs for tests: real clients log in, and may do what the rules of the test say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import TopicAuthorizationFailedError  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, Producer

from qanat.testing import EmbeddedBroker

USERS = {"alice": "secret", "bob": "other"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(users=USERS) as running:
        yield running


def error_of_writing(broker: EmbeddedBroker, user: str, topic: str) -> str | None:
    errors: list[KafkaError | None] = []
    producer = Producer({**broker.client_settings(user), "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return None if errors[0] is None else errors[0].name()


def test_nothing_is_allowed_but_what_a_rule_allows(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders")
    assert error_of_writing(broker, "alice", "orders") == "TOPIC_AUTHORIZATION_FAILED"
    broker.allow("alice", "write", topic="orders")
    assert error_of_writing(broker, "alice", "orders") is None
    assert error_of_writing(broker, "bob", "orders") == "TOPIC_AUTHORIZATION_FAILED"
    broker.revoke("alice", "write", topic="orders")
    assert error_of_writing(broker, "alice", "orders") == "TOPIC_AUTHORIZATION_FAILED"


def test_a_name_with_a_star_is_a_prefix_and_a_deny_wins(broker: EmbeddedBroker) -> None:
    for name in ("shop-1", "shop-2"):
        broker.create_topic(name)
    broker.allow("alice", "all", topic="shop-*")
    broker.deny("alice", "write", topic="shop-2")

    assert error_of_writing(broker, "alice", "shop-1") is None
    assert error_of_writing(broker, "alice", "shop-2") == "TOPIC_AUTHORIZATION_FAILED"


def test_a_consumer_needs_its_group_and_its_topic(broker: EmbeddedBroker) -> None:
    broker.create_topic("news")
    broker.allow("bob", "write", topic="news")
    broker.allow("bob", "read", topic="news")
    broker.allow("bob", "read", group="*")
    assert error_of_writing(broker, "bob", "news") is None
    consumer = Consumer({**broker.client_settings("bob"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["news"])
    message = consumer.poll(30)
    consumer.close()

    assert message is not None
    assert (message.error(), message.value()) == (None, b"x")


def test_users_outlive_a_restart_and_wrong_passwords_are_refused(broker: EmbeddedBroker) -> None:
    broker.create_topic("kept")
    broker.allow("alice", "write", topic="kept")
    broker.restart()
    assert error_of_writing(broker, "alice", "kept") is None
    met: list[KafkaError] = []
    wrong = {**broker.client_settings("alice"), "sasl.password": "guess", "error_cb": met.append, "log_level": 0}
    producer = Producer(wrong)
    while not met:
        producer.poll(0.1)

    assert met[0].code() == KafkaError._AUTHENTICATION


def test_the_broker_on_a_loop_has_users_as_well() -> None:
    async def write() -> None:
        async with EmbeddedBroker.here(users={"carol": "secret"}) as broker:
            await broker.create_topic("orders")
            options = {
                "bootstrap_servers": broker.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_plain_username": "carol",
                "sasl_plain_password": "secret",
            }
            async with AIOKafkaProducer(**options) as producer:
                with pytest.raises(TopicAuthorizationFailedError):
                    await producer.send_and_wait("orders", b"x")
                await broker.allow("carol", "write", topic="orders")
                await producer.send_and_wait("orders", b"x")
            assert len(await broker.records("orders")) == 1

    asyncio.run(write())


@pytest.mark.parametrize(
    ("operation", "resource", "message"),
    [
        ("reed", {"topic": "t"}, "'reed' is no operation: .*read"),
        ("read", {}, "a rule is about one of topic, group"),
        ("read", {"queue": "t"}, "not queue"),
        ("read", {"topic": "t", "group": "g"}, "not topic, group"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    broker: EmbeddedBroker, operation: str, resource: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        broker.allow("alice", operation, **resource)
