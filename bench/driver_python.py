"""The Python driver, for machines without a compiler: the modes and output of `driver.c`, on confluent-kafka.

Per record it costs far more than the C one, so that throughput says less about the broker; latencies, CPU time per
message and memory remain comparable.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.crowd_python import clients, readers, wait_for_go
from bench.payloads_python import payloads_of

_WARM_UP_MAX = 20_000
_SYNC_WARM_UP = 200
_TIMEOUT_S = 60
_POLL_EVERY = 1_000
_DUE = struct.Struct("d")
_CONNECT_S = 0.3
_OWN, _CLIENT = "driver.", "client."
Settings = dict[str, Any]


def _client_settings(address: str, settings: Settings, kind: str) -> Settings:
    """A setting "producer.x" or "consumer.x" is for one kind of client only."""
    other = "consumer." if kind == "producer." else "producer."
    named = {name.removeprefix(_CLIENT): value for name, value in settings.items()}
    mine = {name.removeprefix(kind): value for name, value in named.items() if not name.startswith((other, _OWN))}
    # The one kind of value that this library does not accept as text.
    texts = {name: value == "true" if value in ("true", "false") else value for name, value in mine.items()}
    return {"bootstrap.servers": address, **texts}


def _producer(address: str, settings: Settings) -> Producer:
    return Producer(_client_settings(address, settings, "producer."))


def _consumer(address: str, settings: Settings) -> Consumer:
    own = {"group.id": "bench", "enable.auto.commit": False}
    return Consumer({**own, **_client_settings(address, settings, "consumer.")})


def _produce_all(producer: Producer, topic: str, size: int, count: int, settings: Settings) -> None:
    payloads = payloads_of(size, settings.get("driver.payload", ""))
    partitions = int(settings.get("driver.partitions", "1"))
    for number in range(count):
        while True:
            try:
                producer.produce(topic, payloads[number % len(payloads)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.001)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(_TIMEOUT_S):
        raise SystemExit("driver: not everything was acknowledged in time")


def produce(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    producer = _producer(address, settings)
    _produce_all(producer, topic, size, min(count // 10, _WARM_UP_MAX), settings)
    wait_for_go()
    start = time.perf_counter()
    _produce_all(producer, topic, size, count, settings)
    return {"seconds": time.perf_counter() - start, "count": count}


def _read_all(consumer: Consumer, topic: str, count: int) -> float:
    """Read the first records of a topic; returns the seconds."""
    start, seen = time.perf_counter(), 0
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while seen < count:
        seen += len(consumer.consume(min(10_000, count - seen), timeout=1))
        if time.perf_counter() - start > _TIMEOUT_S:
            raise SystemExit("driver: records are missing")
    return time.perf_counter() - start


def consume(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    consumer = _consumer(address, settings)
    consumer.list_topics(topic, timeout=_TIMEOUT_S)
    wait_for_go()
    return {"seconds": _read_all(consumer, topic, count), "count": count}


def sync(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    producer = _producer(address, settings)
    payload = b"x" * size

    def one() -> float:
        start = time.perf_counter()
        producer.produce(topic, payload, partition=0)
        while len(producer):
            producer.poll(1)
        return time.perf_counter() - start

    for _ in range(_SYNC_WARM_UP):
        one()
    wait_for_go()
    return _latencies([one() for _ in range(count)])


def _send_paced(
    producer: Producer, topic: str, size: int, count: int, rate: int, is_over: threading.Event, took: list[float] | None
) -> None:
    """Send at a fixed rate; the latency of a message counts from when it was due, even where it is sent late.

    What is due goes into the message, and where `took` is given, the time until its acknowledgement goes there.
    """
    wait = time.sleep if took is None else producer.poll
    start = time.perf_counter()
    for number in range(count):
        if is_over.is_set():
            break
        due = start + number / rate
        while (left := due - time.perf_counter()) > 0:
            wait(left)
        on_delivery = None if took is None else _timing(due, took)
        producer.produce(topic, _DUE.pack(due).ljust(size, b"x"), partition=0, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(_TIMEOUT_S)


def _timing(due: float, took: list[float]) -> Callable[[object, object], None]:
    return lambda fault, message: took.append(time.perf_counter() - due)


def endtoend(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    consumer, producer = _consumer(address, settings), _producer(address, settings)
    producer.list_topics(topic, timeout=_TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    consumer.consume(1, timeout=_CONNECT_S)
    wait_for_go()
    sending = (producer, topic, size, count, rate, threading.Event(), None)
    sender = threading.Thread(target=_send_paced, args=sending)
    sender.start()
    took: list[float] = []
    while len(took) < count:
        message = consumer.poll(_TIMEOUT_S)
        if message is None:
            raise SystemExit("driver: records are missing")
        value = message.value()
        if message.error() is None and isinstance(value, bytes):
            took.append(time.perf_counter() - _DUE.unpack_from(value)[0])
    sender.join()
    return _latencies(took[count // 10 :])


def catchup(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    """Read existing records while others are added at a fixed rate."""
    consumer, producer = _consumer(address, settings), _producer(address, settings)
    consumer.list_topics(topic, timeout=_TIMEOUT_S)
    _produce_all(producer, topic, size, _SYNC_WARM_UP, {})
    wait_for_go()
    is_over, took = threading.Event(), list[float]()
    sending = (producer, topic, size, rate * _TIMEOUT_S, rate, is_over, took)
    sender = threading.Thread(target=_send_paced, args=sending)
    sender.start()
    seconds = _read_all(consumer, topic, count)
    is_over.set()
    sender.join()
    acks = _latencies(took)
    named = {f"ack_{name}": acks[name] for name in ("p50_ms", "p99_ms")}
    return {"seconds": seconds, "count": count, "acks": len(took), **named}


def _latencies(took: list[float]) -> dict[str, float]:
    took.sort()
    at = {name: took[int(len(took) * share)] * 1e3 for name, share in _SHARES.items()}
    return {"seconds": sum(took), "count": len(took), **at}


_SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


def _admin(address: str, settings: Settings) -> tuple[AdminClient, Settings]:
    """The client, and the settings that are the topic's."""
    of_client = {name.removeprefix(_CLIENT): value for name, value in settings.items() if name.startswith(_CLIENT)}
    of_topic = {name: value for name, value in settings.items() if not name.startswith(_CLIENT)}
    return AdminClient({"bootstrap.servers": address, **of_client}), of_topic


def create(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    admin, settings = _admin(address, settings)
    replicas = int(settings.pop("replication.factor", "1"))
    partitions = int(settings.pop("partitions", "1"))
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=settings)
    admin.create_topics([new])[topic].result(_TIMEOUT_S)
    return {}


def delete(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    admin, _ = _admin(address, settings)
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
    return {}


MODES = {
    "produce": produce,
    "consume": consume,
    "sync": sync,
    "endtoend": endtoend,
    "catchup": catchup,
    "clients": clients,
    "readers": readers,
    "create": create,
    "delete": delete,
}


def main(arguments: list[str]) -> int:
    if arguments == ["version"]:
        print(libversion()[0])
        return 0
    mode, address, topic, size, count, rate, *rest = arguments
    settings = dict(one.split("=", 1) for one in rest)
    result = MODES[mode](address, topic, int(size), int(count), int(rate), settings)
    if result:
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
