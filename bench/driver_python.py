"""The driver where `driver.c` cannot be compiled: the same modes and output, on confluent-kafka.

Per record it costs far more than the C one, so that throughput says less about the broker; latencies, CPU time per
message and memory remain comparable.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_WARM_UP_MAX = 20_000
_SYNC_WARM_UP = 200
_TIMEOUT_S = 60
_POLL_EVERY = 1_000
_SENT = struct.Struct("d")
Settings = dict[str, Any]


def _client_settings(address: str, settings: Settings, kind: str) -> Settings:
    """A setting "producer.x" or "consumer.x" is for one kind of client only."""
    other = "consumer." if kind == "producer." else "producer."
    mine = {name.removeprefix(kind): value for name, value in settings.items() if not name.startswith(other)}
    # The one kind of value that this library does not take as text.
    texts = {name: value == "true" if value in ("true", "false") else value for name, value in mine.items()}
    return {"bootstrap.servers": address, **texts}


def _producer(address: str, settings: Settings) -> Producer:
    return Producer(_client_settings(address, settings, "producer."))


def _consumer(address: str, settings: Settings) -> Consumer:
    own = {"group.id": "bench", "enable.auto.commit": False}
    return Consumer({**own, **_client_settings(address, settings, "consumer.")})


def _wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _produce_all(producer: Producer, topic: str, size: int, count: int) -> None:
    payload = b"x" * size
    for number in range(count):
        while True:
            try:
                producer.produce(topic, payload, partition=0)
                break
            except BufferError:
                producer.poll(0.001)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    if producer.flush(_TIMEOUT_S):
        raise SystemExit("driver: not everything was acknowledged in time")


def produce(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    producer = _producer(address, settings)
    _produce_all(producer, topic, size, min(count // 10, _WARM_UP_MAX))
    _wait_for_go()
    start = time.perf_counter()
    _produce_all(producer, topic, size, count)
    return {"seconds": time.perf_counter() - start, "count": count}


def consume(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    consumer = _consumer(address, settings)
    consumer.list_topics(topic, timeout=_TIMEOUT_S)
    _wait_for_go()
    start = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen = 0
    while seen < count:
        seen += len(consumer.consume(10_000, timeout=1))
        if time.perf_counter() - start > _TIMEOUT_S:
            raise SystemExit("driver: records are missing")
    return {"seconds": time.perf_counter() - start, "count": seen}


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
    _wait_for_go()
    return _latencies([one() for _ in range(count)])


def endtoend(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    consumer = _consumer(address, settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    consumer.consume(1, timeout=1)
    _wait_for_go()

    def send() -> None:
        producer, start = _producer(address, settings), time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, start + number / rate - time.perf_counter()))
            producer.produce(topic, _SENT.pack(time.perf_counter()).ljust(size, b"x"), partition=0)
            producer.poll(0)
        producer.flush(_TIMEOUT_S)

    sender = threading.Thread(target=send)
    sender.start()
    took: list[float] = []
    while len(took) < count:
        message = consumer.poll(_TIMEOUT_S)
        if message is None:
            raise SystemExit("driver: records are missing")
        value = message.value()
        if message.error() is None and isinstance(value, bytes):
            took.append(time.perf_counter() - _SENT.unpack_from(value)[0])
    sender.join()
    return _latencies(took[count // 10 :])


def _latencies(took: list[float]) -> dict[str, float]:
    took.sort()
    at = {name: took[int(len(took) * share)] * 1e3 for name, share in _SHARES.items()}
    return {"seconds": sum(took), "count": len(took), **at}


_SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


def create(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    admin = AdminClient({"bootstrap.servers": address})
    replicas = int(settings.pop("replication.factor", "1"))
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=settings)
    admin.create_topics([new])[topic].result(_TIMEOUT_S)
    return {}


def delete(address: str, topic: str, size: int, count: int, rate: int, settings: Settings) -> dict[str, float]:
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result(_TIMEOUT_S)
    return {}


MODES = {
    "produce": produce,
    "consume": consume,
    "sync": sync,
    "endtoend": endtoend,
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
