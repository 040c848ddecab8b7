"""Producers by turns: Qanat's, confluent-kafka with a delivery callback, aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.client.bars import Bar
from bench.client.broker import running
from bench.client.turns import Turns, cpu_ratio, rate_ratio

TOPIC = "bench"


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent."""

    count: int
    value_bytes: int
    compression: str = "none"
    has_keys: bool = False

    def value(self) -> bytes:
        words = b'{"customer": 4711, "item": "kettle", "amount": 3, "price": 24.9, "city": "Isfahan"}'
        return (words * (self.value_bytes // len(words) + 1))[: self.value_bytes]

    def each_key(self) -> list[bytes | None]:
        return [b"customer-%d" % (number % 1000) if self.has_keys else None for number in range(self.count)]


def qanat_async(address: str, load: Load) -> None:
    from qanat.client import AsyncProducer

    async def run() -> None:
        value = load.value()
        async with AsyncProducer(address, compression_type=load.compression) as producer:
            receipts = [await producer.send(TOPIC, value, key=key) for key in load.each_key()]
            await producer.flush()
            assert all(receipt.done for receipt in receipts)
            assert (await receipts[-1]).offset >= 0

    asyncio.run(run())


def qanat_sync(address: str, load: Load) -> None:
    from qanat.client import Producer

    value = load.value()
    with Producer(address, compression_type=load.compression) as producer:
        receipts = [producer.send(TOPIC, value, key=key) for key in load.each_key()]
        producer.flush()
        assert all(receipt.done for receipt in receipts)


def confluent(address: str, load: Load) -> None:
    from confluent_kafka import Producer

    value, done = load.value(), 0

    def delivered(fault: object, message: object) -> None:
        nonlocal done
        assert fault is None
        done += 1

    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": load.compression}
    )
    for key in load.each_key():
        while True:
            try:
                producer.produce(TOPIC, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    assert done == load.count


def aiokafka(address: str, load: Load) -> None:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    async def run() -> None:
        value = load.value()
        compression = None if load.compression == "none" else load.compression
        producer = AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=True, compression_type=compression, linger_ms=5
        )
        await producer.start()
        try:
            futures = [await producer.send(TOPIC, value, key=key) for key in load.each_key()]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()

    asyncio.run(run())


OURS, OURS_SYNC, CONFLUENT, AIOKAFKA = "qanat AsyncProducer", "qanat Producer", "confluent + callback", "aiokafka"
CLIENTS: dict[str, Callable[[str, Load], None]] = {
    OURS: qanat_async,
    OURS_SYNC: qanat_sync,
    CONFLUENT: confluent,
    AIOKAFKA: aiokafka,
}


def measure(address: str, load: Load, rounds: int, names: list[str]) -> dict[str, Turns]:
    """Each client in each round; the first round warms up and is not counted."""
    found = {name: Turns() for name in names}
    for number in range(rounds + 1):
        for name in names:
            began, cpu = time.perf_counter(), time.process_time()
            CLIENTS[name](address, load)
            if number:
                rate = load.count / (time.perf_counter() - began)
                found[name].add((time.process_time() - cpu) / load.count * 1e6, rate)
    return found


def bars(count: int, rounds: int) -> list[Bar]:
    """All loads; the bars are of 100 bytes without compression, and of 1 KB with it."""
    loads = {
        "100 B": Load(count, 100),
        "100 B, keys": Load(count, 100, has_keys=True),
        "100 B, lz4": Load(count, 100, "lz4"),
        "1 KB": Load(count // 4, 1000),
        "1 KB, lz4": Load(count // 4, 1000, "lz4"),
        "1 KB, zstd": Load(count // 4, 1000, "zstd"),
    }
    found: list[Bar] = []
    for title, load in loads.items():
        names = [name for name in CLIENTS if name != AIOKAFKA or title == "100 B"]
        with running(TOPIC) as address:
            print(title)
            turns = measure(address, load, rounds, names)
        for name, one in turns.items():
            print(f"  {name:22s} {one}", flush=True)
        if title == "100 B":
            found += [
                Bar(f"{name}: CPU beside {CONFLUENT}", cpu_ratio(turns[name], turns[CONFLUENT]), 1.0, "at most")
                for name in (OURS, OURS_SYNC)
            ]
            found.append(
                Bar(f"{OURS}: rate beside aiokafka's", rate_ratio(turns[OURS], turns[AIOKAFKA]), 3.0, "at least")
            )
        elif load.compression != "none" and load.value_bytes == 1000:
            ratio = 1 / cpu_ratio(turns[OURS], turns[CONFLUENT])
            what = f"{OURS}, 1 KB with {load.compression}: messages per CPU second beside {CONFLUENT}"
            found.append(Bar(what, ratio, 0.85, "at least"))
    return found
