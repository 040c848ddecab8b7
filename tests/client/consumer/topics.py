"""Topics with records, written and read by foreign clients: the judges of our consumer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable

from confluent_kafka import Producer

from qanat.client import Consumer
from qanat.testing import EmbeddedBroker

_numbers = itertools.count()
WAIT_S = 60.0


def new_topic(broker: EmbeddedBroker, partitions: int = 1) -> str:
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, partitions)
    return name


def write(address: str, topic: str, values: Iterable[bytes], **settings: object) -> None:
    """Write by librdkafka; the value's number decides the partition's key."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **settings})
    for value in values:
        producer.produce(topic, value, key=value)
    assert producer.flush(WAIT_S) == 0


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def read(consumer: Consumer, count: int) -> list[bytes]:
    """So many values, by `poll`."""
    found: list[bytes] = []
    end_s = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < end_s:
        found += [record.value for record in consumer.poll()]
    return found


def wait_until(condition: Callable[[], bool], poll: Callable[[], object] = lambda: None) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "it does not happen"
        poll()
        time.sleep(0.01)
