"""Measurements on their way into the broker: one function for each door through which they may come.

Each takes the broker's address, what is to be sent and a function to tell progress to, and returns the seconds it took,
all records acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from qanat.app.demo.claims import claim
from qanat.app.demo.fleet import Sent

TOPIC = "metrics.inbound"
_PATIENCE_S = 60.0
_TELL_EVERY = 1000


def feed_by_kafka(address: str, records: Iterable[Sent], progress: Callable[[int], None]) -> float:
    """Through a Kafka client (librdkafka), idempotent, each record with the time at which it arrives."""
    from confluent_kafka import Producer

    failed: list[str] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
    )
    started = time.perf_counter()
    count = 0
    for count, record in enumerate(records, 1):
        while True:
            try:
                producer.produce(
                    TOPIC, record.value, key=record.key, timestamp=record.arrival_ms, on_delivery=on_delivery
                )
                break
            except BufferError:
                producer.poll(0.05)
        if count % _TELL_EVERY == 0:
            producer.poll(0)
            progress(_TELL_EVERY)
    left = producer.flush(_PATIENCE_S)
    progress(count % _TELL_EVERY)
    claim(not failed and left == 0, f"every measurement is acknowledged ({failed[:1] or left})")
    return time.perf_counter() - started
