"""Java's names: the seeds' examples, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from qanat.client import (
    ClientError,
    ClosedError,
    ConsumerRecords,
    MessageConsumer,
    MessageProducer,
    ProducerRecord,
)
from qanat.testing import EmbeddedBroker

STRINGS = "org.apache.kafka.common.serialization.String"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        found.create_topic("test-topic")
        yield found


def test_the_seeds_producer_and_consumer_translate_line_by_line(broker: EmbeddedBroker) -> None:
    props: dict[str, object] = {}
    props["bootstrap.servers"] = broker.bootstrap_servers
    props["key.serializer"] = STRINGS + "Serializer"
    props["value.serializer"] = STRINGS + "Serializer"

    with MessageProducer(props) as producer:
        record = ProducerRecord("test-topic", "key1", "Hello World!")
        producer.send(record)

    props = {}
    props["bootstrap.servers"] = broker.bootstrap_servers
    props["group.id"] = "test-group"
    props["key.deserializer"] = STRINGS + "Deserializer"
    props["value.deserializer"] = STRINGS + "Deserializer"
    props["auto.offset.reset"] = "earliest"

    received: list[str] = []
    with MessageConsumer(props) as consumer:
        consumer.subscribe(["test-topic"])
        while not received:
            records: ConsumerRecords = consumer.poll(timedelta(milliseconds=100))
            for one in records:
                received.append(f"Received: {one.value()}")
                assert (one.topic(), one.partition(), one.offset(), one.key()) == ("test-topic", 0, 0, "key1")
        consumer.commit_sync()
    assert received == ["Received: Hello World!"]


def test_a_record_has_three_forms() -> None:
    assert ProducerRecord("t", "v").key() is None
    assert ProducerRecord("t", "k", "v").key() == "k"
    four = ProducerRecord("t", 1, "k", "v", timestamp=5, headers=[("a", b"b")])
    assert (four.partition(), four.key(), four.value(), four.timestamp(), four.headers()) == (
        1,
        "k",
        "v",
        5,
        (("a", b"b"),),
    )
    with pytest.raises(ClientError, match=r"\(topic, key, value\)"):
        ProducerRecord("t")


def test_a_consumer_without_topics_or_after_its_end_says_what_to_do(broker: EmbeddedBroker) -> None:
    consumer = MessageConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    with pytest.raises(ClosedError, match="subscribe"):
        consumer.poll(0)
    consumer.close()
    with pytest.raises(ClosedError, match="make another one"):
        consumer.subscribe(["test-topic"])
