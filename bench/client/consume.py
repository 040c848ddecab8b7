"""Consumers by turns: Qanat's, confluent-kafka's `consume(500)`, aiokafka's `async for`.

`python -m bench.client.consume` fills a topic of 4 partitions and lets each client read it. CPU time is that of the
client's process, all its threads, from the first record to the last. `poll` and `consume` are both members of a group
and both look at every value; the two `async for` have no group.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from bench.client.bars import Bar, show
from bench.client.broker import running
from bench.client.turns import Turns, cpu_ratio

TOPIC = "bench"


class Clock:
    """CPU and wall time from the first record on."""

    def __init__(self) -> None:
        self._cpu_s = self._wall_s = 0.0
        self.first = 0

    def begin(self, first: int) -> None:
        """The first `first` records are there; they do not count."""
        self.first = first
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def end(self, count: int) -> tuple[float, float]:
        """µs of CPU time per message, messages per second."""
        counted = count - self.first
        cpu_s, wall_s = time.process_time() - self._cpu_s, time.perf_counter() - self._wall_s
        return cpu_s / counted * 1e6, counted / wall_s


def qanat_poll(address: str, count: int) -> tuple[float, float]:
    from qanat.client import Consumer

    clock, seen = Clock(), 0
    group = f"g-{time.monotonic_ns()}"
    with Consumer(address, TOPIC, group=group, auto_offset_reset="earliest") as consumer:
        while seen < count:
            seen += sum(1 for record in consumer.poll(500) if record.value is not None)
            if not clock.first and seen:
                clock.begin(seen)
        return clock.end(seen)


def qanat_group(address: str, count: int) -> tuple[float, float]:
    from qanat.client import Consumer

    clock, seen = Clock(), 0
    group = f"g-{time.monotonic_ns()}"
    with Consumer(address, TOPIC, group=group, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            seen += record.offset >= 0
            if seen == 1:
                clock.begin(1)
            if seen == count:
                break
        return clock.end(seen)


def qanat_async_for(address: str, count: int) -> tuple[float, float]:
    from qanat.client import AsyncConsumer

    async def run() -> tuple[float, float]:
        clock, seen = Clock(), 0
        async with AsyncConsumer(address, TOPIC, auto_offset_reset="earliest") as consumer:
            async for _ in consumer:
                seen += 1
                if seen == 1:
                    clock.begin(1)
                if seen == count:
                    break
            return clock.end(seen)

    return asyncio.run(run())


def qanat_arrow(address: str, count: int) -> tuple[float, float]:
    from qanat.client import Consumer

    clock, seen = Clock(), 0
    with Consumer(address, TOPIC, auto_offset_reset="earliest") as consumer:
        for batch in consumer.arrow(50_000, 0.1):
            seen += batch.num_rows
            if not clock.first:
                clock.begin(seen)
            if seen >= count:
                break
        return clock.end(seen)


def confluent_consume(address: str, count: int) -> tuple[float, float]:
    from confluent_kafka import Consumer

    clock, seen = Clock(), 0
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": f"g-{time.monotonic_ns()}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    while seen < count:
        seen += sum(1 for message in consumer.consume(500, 1.0) if message.value() is not None)
        if not clock.first and seen:
            clock.begin(seen)
    found = clock.end(seen)
    consumer.close()
    return found


def aiokafka_async_for(address: str, count: int) -> tuple[float, float]:
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]

    async def run() -> tuple[float, float]:
        clock, seen = Clock(), 0
        consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            async for _ in consumer:
                seen += 1
                if seen == 1:
                    clock.begin(1)
                if seen == count:
                    break
            return clock.end(seen)
        finally:
            await consumer.stop()

    return asyncio.run(run())


OURS, OURS_ASYNC, ARROW = "qanat poll", "qanat async for", "qanat arrow"
CONFLUENT, AIOKAFKA = "confluent consume(500)", "aiokafka async for"
CLIENTS: dict[str, Callable[[str, int], tuple[float, float]]] = {
    OURS: qanat_poll,
    CONFLUENT: confluent_consume,
    "qanat for, group": qanat_group,
    OURS_ASYNC: qanat_async_for,
    AIOKAFKA: aiokafka_async_for,
    ARROW: qanat_arrow,
}


def fill(address: str, count: int, compression: str) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 20,
            "compression.type": compression,
            "queue.buffering.max.messages": 0,
        }
    )
    value = (b'{"customer": 4711, "item": "kettle", "amount": 3, "price": 24.9, "city": "Isfahan"}' * 2)[:100]
    for number in range(count):
        producer.produce(TOPIC, value, partition=number % 4)
        if not number % 10_000:
            producer.poll(0)
    producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="Consumers beside others.")
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--client", action="append", choices=list(CLIENTS))
    chosen = parser.parse_args()
    show(bars(chosen.count, chosen.rounds, chosen.compression, chosen.client))


def bars(count: int, rounds: int, compression: str = "none", names: Sequence[str] | None = None) -> list[Bar]:
    """Let the clients read a topic by turns."""
    turns = {name: Turns() for name in names or CLIENTS}
    with running(TOPIC) as address:
        fill(address, count, compression)
        for number in range(rounds + 1):
            for name, found in turns.items():
                figures = CLIENTS[name](address, count)
                # The first round warms up.
                if number:
                    found.add(*figures)
    for name, found in turns.items():
        print(f"  {name:24s} {found}", flush=True)
    return [
        Bar(f"{OURS}: CPU beside {CONFLUENT}", _ratio(turns, OURS, CONFLUENT), 1.0, "at most"),
        Bar(
            f"{OURS_ASYNC}: messages per CPU second beside aiokafka's",
            _ratio(turns, AIOKAFKA, OURS_ASYNC),
            4.0,
            "at least",
        ),
        Bar(
            f"{ARROW}: records a second per core",
            1 / turns[ARROW].middle_us if ARROW in turns else None,
            2.0,
            "at least",
            "M/s",
        ),
    ]


def _ratio(turns: Mapping[str, Turns], one: str, other: str) -> float | None:
    return cpu_ratio(turns[one], turns[other]) if one in turns and other in turns else None


if __name__ == "__main__":
    main()
