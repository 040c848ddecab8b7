"""The demonstration's broker: a real process, used through librdkafka, killed with -9 and restarted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from demo.claims import ClaimError, claim

TOPIC = "orders"
PARTITIONS = 4
_VALUE = b"x" * 100
_TIMEOUT_S = 60.0
_ADDRESS = re.compile(r"address=(\S+) http=http://(\S+)")

Progress = Callable[[int], None]
Records = dict[tuple[int | None, int | None], bytes | None]
"""Keys by partition and offset."""


class Running(NamedTuple):
    """A broker's process, and its addresses for Kafka's protocol and HTTP."""

    process: subprocess.Popen[str]
    address: str
    http: str


@contextmanager
def running_broker(folder: Path, port: int = 0) -> Iterator[Running]:
    """`qanat start` on free ports; yields the process and the addresses that it logs."""
    command = [sys.executable, "-m", "qanat.app", "start", "--port", str(port), "--data-dir", str(folder)]
    command += ["-X", "group.initial.rebalance.delay.ms=0", "-X", "http.port=0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if (found := _ADDRESS.search(line)) is not None:
                yield Running(process, found[1], found[2])
                return
        raise ClaimError("the broker ended before it was ready")
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def produce(address: str, records: int, progress: Progress) -> tuple[Records, float]:
    """Send records with acks=all; returns the keys of acknowledged ones by partition and offset, and the seconds."""
    from confluent_kafka import KafkaError, Message, Producer

    acknowledged: Records = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged[message.partition(), message.offset()] = message.key()
            progress(1)

    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5, "compression.type": "lz4"})
    started = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, _VALUE, key=b"order-%d" % number, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(_TIMEOUT_S)
    claim(len(acknowledged) == records, f"all {records} records are acknowledged, {len(acknowledged)} are")
    return acknowledged, time.perf_counter() - started


def consume(address: str, group: str, records: int, progress: Progress) -> tuple[Records, float]:
    """Read everything as a member of a group and commit; returns keys by partition and offset, and the seconds."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    found: Records = {}
    started = time.perf_counter()
    while len(found) < records and time.perf_counter() - started < _TIMEOUT_S:
        messages = [message for message in consumer.consume(10_000, 0.5) if message.error() is None]
        found.update({(message.partition(), message.offset()): message.key() for message in messages})
        progress(len(messages))
    elapsed = time.perf_counter() - started
    consumer.commit(asynchronous=False)
    consumer.close()
    return found, elapsed


def serve_and_survive(folder: Path, records: int, sending: Progress, reading: Progress) -> tuple[float, float]:
    """Produce, kill the broker with -9, restart it, consume: every acknowledged record is there, once."""
    with running_broker(folder) as (process, address, _):
        acknowledged, sent_s = produce(address, records, sending)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with running_broker(folder) as (_, address, _):
        found, read_s = consume(address, "billing", records, reading)
    claim(found == acknowledged, "after the kill every acknowledged record is read, at its offset")
    return records / sent_s, records / read_s
