"""Measurements on their way into the broker: one function for each door through which they may come.

Each takes the broker's address, what is to be sent and a function to tell progress to, and returns the seconds it took,
all records acknowledged.
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
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            # A key has one home, whichever door it comes through; librdkafka's own default differs.
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
        if count % _TELL_EVERY == 0:
            producer.poll(0)
            progress(_TELL_EVERY)
    left = producer.flush(_PATIENCE_S)
    progress(count % _TELL_EVERY)
    claim(not failed and left == 0, f"every measurement is acknowledged ({failed[:1] or left})")
    return time.perf_counter() - started


def feed_by_http(address: str, records: Iterable[Sent], progress: Callable[[int], None]) -> float:
    """Through the HTTP door: a thousand lines a request, each request under a key that makes its repeat harmless."""
    connection = HTTPConnection(address, timeout=_PATIENCE_S)
    left = iter(records)
    started = time.perf_counter()
    number = 0
    while lines := [_line(record) for record in islice(left, _TELL_EVERY)]:
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
    """A record as a line: text as text, what is none as base64; the value arrives to the byte."""
    fields: dict[str, object] = {"key": record.key.decode(), "timestamp": record.arrival_ms}
    try:
        fields |= {"value": record.value.decode(), "value_encoding": "text"}
    except UnicodeDecodeError:
        fields |= {"value": b64encode(record.value).decode(), "value_encoding": "base64"}
    return json.dumps(fields).encode()
