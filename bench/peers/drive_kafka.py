"""The driver of systems that speak Kafka: librdkafka, through confluent-kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

from bench import driver_python
from bench.peers.driving import TIMEOUT_S, Arrivals, Asked, Found, Mode, main, paced, throughput, wait_for_go

_AT_ONCE = 1_000
"""As many as the other drivers take at a time; librdkafka waits where there are fewer."""


def consume(asked: Asked) -> Found:
    consumer = _consumer(asked)
    consumer.list_topics(asked.topic, timeout=TIMEOUT_S)
    wait_for_go()
    start, seen = time.perf_counter(), 0
    consumer.assign([TopicPartition(asked.topic, 0, OFFSET_BEGINNING)])
    while seen < asked.count:
        seen += len(consumer.consume(min(_AT_ONCE, asked.count - seen), timeout=1))
        if time.perf_counter() - start > TIMEOUT_S:
            raise SystemExit("driver: records are missing")
    return throughput(start, seen)


def end_to_end(asked: Asked) -> Found:
    consumer = _consumer(asked)
    producer = Producer({"bootstrap.servers": asked.address, "acks": "all", "linger.ms": "0"})
    consumer.assign([TopicPartition(asked.topic, 0, OFFSET_END)])
    consumer.consume(1, timeout=1)
    producer.list_topics(asked.topic, timeout=TIMEOUT_S)
    wait_for_go()

    def send(payload: bytes) -> None:
        producer.produce(asked.topic, payload, partition=0)
        producer.poll(0)

    arrivals = Arrivals(asked.count)
    sender = paced(asked, send)
    sender.start()
    deadline = time.monotonic() + TIMEOUT_S + asked.count / asked.rate
    while not arrivals.is_complete:
        message = consumer.poll(1)
        if time.monotonic() > deadline:
            raise SystemExit("driver: records are missing")
        value = None if message is None or message.error() is not None else message.value()
        if isinstance(value, bytes):
            arrivals.saw(value)
    sender.join()
    producer.flush(TIMEOUT_S)
    return arrivals.found()


def _consumer(asked: Asked) -> Consumer:
    return Consumer({"bootstrap.servers": asked.address, "group.id": "bench", "enable.auto.commit": False})


def _as_mode(function: Callable[..., Found]) -> Mode:
    def run(asked: Asked) -> Found:
        settings = dict(asked.settings)
        return function(asked.address, asked.topic, asked.size, asked.count, asked.rate, settings)

    return run


MODES: dict[str, Mode] = {
    **{name: _as_mode(function) for name, function in driver_python.MODES.items()},
    "consume": consume,
    "endtoend": end_to_end,
}

if __name__ == "__main__":
    sys.exit(main(("confluent-kafka",), MODES, sys.argv[1:]))
