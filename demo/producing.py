"""Producing the fleet's measurements: one function for each protocol.

Each takes the broker's address, the records and a callback for progress, and returns the seconds until all records were
acknowledged.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from itertools import islice

from demo.claims import claim
from demo.fleet import Sent

TOPIC = "metrics.inbound"
_TIMEOUT_S = 60.0
_PROGRESS_EVERY = 1000


def produce_by_kafka(address: str, records: Iterable[Sent], progress: Callable[[int], None]) -> float:
    """Produce through a Kafka client (librdkafka), idempotently, each record with its arrival time."""
    from confluent_kafka import Producer

    failed: list[str] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            # HTTP and Kafka clients must choose the same partition for a key; librdkafka's own default differs.
            "partitioner": "murmur2_random",
        }
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
        if count % _PROGRESS_EVERY == 0:
            producer.poll(0)
            progress(_PROGRESS_EVERY)
    left = producer.flush(_TIMEOUT_S)
    progress(count % _PROGRESS_EVERY)
    claim(not failed and left == 0, f"every measurement is acknowledged ({failed[:1] or left})")
    return time.perf_counter() - started


def produce_by_http(address: str, records: Iterable[Sent], progress: Callable[[int], None]) -> float:
    """Produce over HTTP: a thousand lines a request, each request with an idempotency key."""
    connection = HTTPConnection(address, timeout=_TIMEOUT_S)
    left = iter(records)
    started = time.perf_counter()
    number = 0
    while lines := [_line(record) for record in islice(left, _PROGRESS_EVERY)]:
        number += 1
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"demo-{number}"}
        connection.request("POST", f"/api/v1/topics/{TOPIC}/records", b"\n".join(lines), headers)
        response = connection.getresponse()
        answer = response.read()
        claim(response.status == 200, f"every measurement sent over HTTP is acknowledged ({answer[:200]!r})")
        progress(len(lines))
    connection.close()
    return time.perf_counter() - started


def _line(record: Sent) -> bytes:
    """A record as a line of JSON: text as text, other bytes as base64."""
    fields: dict[str, object] = {"key": record.key.decode(), "timestamp": record.arrival_ms}
    try:
        fields |= {"value": record.value.decode(), "value_encoding": "text"}
    except UnicodeDecodeError:
        fields |= {"value": b64encode(record.value).decode(), "value_encoding": "base64"}
    return json.dumps(fields).encode()
