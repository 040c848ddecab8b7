"""What is wrong is said in one sentence, by every kind of client, and in bounded time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qanat.client import (
    App,
    AppError,
    ClientError,
    ClosedError,
    Consumer,
    Producer,
    PushConsumer,
    PushProducer,
    QueueConsumer,
    SerializationError,
    UnknownSettingError,
)
from qanat.connection import cluster
from qanat.model.errors import InvalidSettingError, QanatError
from qanat.testing import EmbeddedBroker

Client = Callable[..., Any]
BOUND_S = 120.0
AT_ONCE_S = 60.0
"""On a machine that runs other tests as well."""


def produced(address: str, **settings: Any) -> None:
    with Producer(address, **settings) as producer:
        producer.send("orders", b"1").result(BOUND_S)


def consumed(address: str, **settings: Any) -> None:
    with Consumer(address, "orders", group="g", **settings) as consumer:
        consumer.poll(timeout_s=BOUND_S)


def consumed_alone(address: str, **settings: Any) -> None:
    with Consumer(address, "orders", **settings) as consumer:
        consumer.poll(timeout_s=BOUND_S)


def queued(address: str, **settings: Any) -> None:
    with QueueConsumer(address, "orders", group="q", **settings) as queue:
        queue.poll(timeout_s=BOUND_S)


USES = [produced, consumed, consumed_alone, queued]


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(users={"ann": "right"}) as broker:
        yield broker


def refusal_of(use: Client, *arguments: Any, **settings: Any) -> str:
    """The sentence, within the bound."""
    began = time.monotonic()
    with pytest.raises(QanatError) as refusal:
        use(*arguments, **settings)
    assert time.monotonic() - began < BOUND_S
    said = str(refusal.value)
    assert "\n" not in said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("use", USES)
def test_a_broker_that_is_not_there_is_named(use: Client) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
    said = refusal_of(use, address, bootstrap_timeout_ms=500)
    assert address in said


@pytest.mark.parametrize("use", USES)
def test_wrong_credentials_are_named_at_once(use: Client, secured: EmbeddedBroker) -> None:
    settings = {**secured.client_settings("ann"), "sasl.password": "wrong"}
    address = settings.pop("bootstrap.servers")
    began = time.monotonic()
    said = refusal_of(use, {"bootstrap.servers": address, **settings})
    assert "ann" in said
    assert "password" in said
    assert time.monotonic() - began < AT_ONCE_S, "a wrong password stays wrong: it is not tried again"


@pytest.mark.parametrize("use", USES)
def test_missing_credentials_are_named_after_the_time_for_a_first_answer(use: Client, secured: EmbeddedBroker) -> None:
    began = time.monotonic()
    said = refusal_of(use, secured.bootstrap_servers, bootstrap_timeout_ms=1000)
    assert "it may require authentication: security.protocol, sasl.mechanism" in said
    assert time.monotonic() - began < AT_ONCE_S


def test_a_user_who_may_write_nowhere_is_told_what_to_allow(secured: EmbeddedBroker) -> None:
    settings = secured.client_settings("ann")
    assert "allow WRITE" in refusal_of(produced, settings)


@pytest.mark.parametrize("use", [produced, consumed, consumed_alone, queued])
def test_an_unknown_topic_is_named(use: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CREATION_S", 1.0)
    with EmbeddedBroker(settings={"auto.create.topics.enable": False}) as broker:
        said = refusal_of(use, broker.bootstrap_servers)
    assert "orders" in said


@pytest.mark.parametrize("client", [Producer, Consumer, QueueConsumer, PushProducer, PushConsumer])
def test_a_misspelled_setting_is_named_with_the_nearest(client: Client) -> None:
    arguments = () if client in (Producer, PushProducer) else ("orders",)
    with pytest.raises(UnknownSettingError, match="client_idd; did you mean client_id"):
        client("localhost:9092", *arguments, client_idd="x")


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="group is empty: name one, or leave it out"):
        Consumer("localhost:9092", "orders", group="")


def test_an_app_without_handlers_says_how_to_declare_one() -> None:
    with pytest.raises(AppError, match=r"this app has no handler: declare one, as in @app.stream\('orders'\)"):
        App("localhost:9092").run()


def test_topics_and_headers_of_the_wrong_type_are_named() -> None:
    with EmbeddedBroker() as broker, Producer(broker.bootstrap_servers) as producer:
        wrong: Any = {"topic": 7, "headers": {"count": 1}}
        with pytest.raises(ClientError, match="the topic is 7, but must be a text"):
            producer.send(wrong["topic"], b"x")
        producer.send("orders", b"x").result(BOUND_S)
        with pytest.raises(SerializationError, match=r"pairs of a text and bytes.*: 1 is neither bytes nor a text"):
            producer.send("orders", b"x", headers=wrong["headers"])
        producer.send("orders", b"x", headers={"a": bytearray(b"b")}).result(BOUND_S)  # type: ignore[arg-type]


@pytest.mark.parametrize("client", [Consumer, QueueConsumer])
def test_use_after_close_says_what_to_do(client: Client) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        one = client(broker.bootstrap_servers, "orders", group="g")
        one.poll(timeout_s=0.1)
        one.close()
        one.close()
        with pytest.raises(ClosedError, match="closed"):
            one.poll(timeout_s=0.1)


def test_an_asynchronous_client_outside_of_a_loop_says_what_to_do() -> None:
    from qanat.client import AsyncConsumer

    async def use() -> None:
        async with AsyncConsumer("localhost:1", "orders", bootstrap_timeout_ms=1000) as consumer:
            await consumer.poll(timeout_s=5)

    with pytest.raises(QanatError, match="localhost:1"):
        asyncio.run(use())
