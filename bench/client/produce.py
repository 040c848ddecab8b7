"""Producers by turns: Qanat's, confluent-kafka with a delivery callback, aiokafka."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Turns:
    """The figures of one client."""

    cpu_us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        low, high = min(self.cpu_us), max(self.cpu_us)
        return (
            f"{statistics.median(self.cpu_us):6.2f} µs/message ({low:.2f}–{high:.2f})  "
            f"{statistics.median(self.rates) / 1000:7.1f} k messages/s"
        )


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


CLIENTS: dict[str, Callable[[str, Load], None]] = {
    "qanat AsyncProducer": qanat_async,
    "qanat Producer": qanat_sync,
    "confluent + callback": confluent,
    "aiokafka": aiokafka,
}


def measure(address: str, load: Load, rounds: int, names: list[str]) -> dict[str, Turns]:
    """Each client in each round; the first round warms up and is not counted."""
    found = {name: Turns() for name in names}
    for number in range(rounds + 1):
        for name in names:
            began, cpu = time.perf_counter(), time.process_time()
            CLIENTS[name](address, load)
            if number:
                found[name].cpu_us.append((time.process_time() - cpu) / load.count * 1e6)
                found[name].rates.append(load.count / (time.perf_counter() - began))
    return found
