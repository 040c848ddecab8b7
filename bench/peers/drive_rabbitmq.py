"""The driver of RabbitMQ streams: rstream on the stream protocol, frames of 500 messages, ten of them in flight."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

from bench.peers.driving import (
    SYNC_WARM_UP,
    TIMEOUT_S,
    Arrivals,
    Asked,
    Found,
    Mode,
    in_a_loop,
    main,
    paced,
    percentiles,
    throughput,
    wait_for_go,
)
from qanat.app.bench.broker.latencies import Latencies

FRAME = 500
IN_FLIGHT = 10 * FRAME
_USER = "guest"
"""Also the password: RabbitMQ's own default, which it takes from loopback only."""


def _producer(asked: Asked) -> Producer:
    return Producer(asked.host, asked.port, username=_USER, password=_USER)


def _consumer(asked: Asked) -> Consumer:
    return Consumer(asked.host, asked.port, username=_USER, password=_USER)


class _Window:
    """Messages that are sent and not yet confirmed."""

    def __init__(self) -> None:
        self._unconfirmed = 0
        self._changed = asyncio.Event()

    def sent(self, count: int) -> None:
        self._unconfirmed += count

    def confirmed(self, status: Any) -> None:
        if not status.is_confirmed:
            raise SystemExit("driver: a message was refused")
        self._unconfirmed -= 1
        self._changed.set()

    async def below(self, limit: int) -> None:
        while self._unconfirmed >= limit:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), TIMEOUT_S)


async def _send_all(producer: Producer, asked: Asked, count: int) -> None:
    window, payload = _Window(), asked.payload
    for begin in range(0, count, FRAME):
        frame = [payload] * min(FRAME, count - begin)
        window.sent(len(frame))
        await producer.send_batch(asked.topic, frame, on_publish_confirm=window.confirmed)
        await window.below(IN_FLIGHT)
    await window.below(1)


async def produce(asked: Asked) -> Found:
    async with _producer(asked) as producer:
        await _send_all(producer, asked, asked.warm_up_count)
        wait_for_go()
        start = time.perf_counter()
        await _send_all(producer, asked, asked.count)
        return throughput(start, asked.count)


async def consume(asked: Asked) -> Found:
    async with _consumer(asked) as consumer:
        done, seen = asyncio.Event(), 0

        def on_message(*_: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == asked.count:
                done.set()

        wait_for_go()
        start = time.perf_counter()
        first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
        await consumer.subscribe(asked.topic, on_message, offset_specification=first)
        await asyncio.wait_for(done.wait(), TIMEOUT_S)
        return throughput(start, seen)


async def sync(asked: Asked) -> Found:
    async with _producer(asked) as producer:
        latencies, payload = Latencies(), asked.payload
        for _ in range(SYNC_WARM_UP):
            await producer.send_wait(asked.topic, payload)
        wait_for_go()
        for _ in range(asked.count):
            start = time.perf_counter()
            await producer.send_wait(asked.topic, payload)
            latencies.record(max(1, round((time.perf_counter() - start) * 1e6)))
        return percentiles(latencies)


async def end_to_end(asked: Asked) -> Found:
    async with _producer(asked) as producer, _consumer(asked) as consumer:
        done, arrivals, loop = asyncio.Event(), Arrivals(asked.count), asyncio.get_running_loop()
        window = _Window()

        def on_message(message: Any, *_: Any) -> None:
            arrivals.saw(message)
            if arrivals.is_complete:
                done.set()

        async def publish(payload: bytes) -> None:
            window.sent(1)
            await producer.send_batch(asked.topic, [payload], on_publish_confirm=window.confirmed)

        following = ConsumerOffsetSpecification(OffsetType.NEXT, None)
        await consumer.subscribe(asked.topic, on_message, offset_specification=following)
        wait_for_go()
        paced(asked, lambda payload: asyncio.run_coroutine_threadsafe(publish(payload), loop)).start()
        await asyncio.wait_for(done.wait(), TIMEOUT_S + asked.count / asked.rate)
        await window.below(1)
        return arrivals.found()


async def create(asked: Asked) -> Found:
    async with _producer(asked) as producer:
        await producer.create_stream(asked.topic)
    return {}


async def delete(asked: Asked) -> Found:
    async with _producer(asked) as producer:
        await producer.delete_stream(asked.topic, missing_ok=True)
    return {}


MODES: dict[str, Mode] = {
    "produce": in_a_loop(produce),
    "consume": in_a_loop(consume),
    "sync": in_a_loop(sync),
    "endtoend": in_a_loop(end_to_end),
    "create": in_a_loop(create),
    "delete": in_a_loop(delete),
}

if __name__ == "__main__":
    sys.exit(main(("rstream",), MODES, sys.argv[1:]))
