"""The driver of NATS JetStream: nats-py, up to 4,000 publishes in flight, an ordered consumer."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import nats
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import NotFoundError

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

IN_FLIGHT = 4_000


@contextlib.asynccontextmanager
async def _connected(asked: Asked) -> AsyncIterator[JetStreamContext]:
    connection = await nats.connect(f"nats://{asked.address}", allow_reconnect=False)
    try:
        yield connection.jetstream(timeout=TIMEOUT_S, publish_async_max_pending=IN_FLIGHT)
    finally:
        await connection.close()


async def _publish_all(stream: JetStreamContext, asked: Asked, count: int) -> None:
    payload = asked.payload
    sent = [await stream.publish_async(asked.topic, payload, wait_stall=TIMEOUT_S) for _ in range(count)]
    for acknowledged in sent:
        await acknowledged


async def produce(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        await _publish_all(stream, asked, asked.warm_up_count)
        wait_for_go()
        start = time.perf_counter()
        await _publish_all(stream, asked, asked.count)
        return throughput(start, asked.count)


async def consume(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        done, seen = asyncio.Event(), 0

        async def on_message(_: Msg) -> None:
            nonlocal seen
            seen += 1
            if seen == asked.count:
                done.set()

        wait_for_go()
        start = time.perf_counter()
        await stream.subscribe(asked.topic, cb=on_message, ordered_consumer=True)
        await asyncio.wait_for(done.wait(), TIMEOUT_S)
        return throughput(start, seen)


async def sync(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        latencies, payload = Latencies(), asked.payload
        for _ in range(SYNC_WARM_UP):
            await stream.publish(asked.topic, payload)
        wait_for_go()
        for _ in range(asked.count):
            start = time.perf_counter()
            await stream.publish(asked.topic, payload)
            latencies.record(max(1, round((time.perf_counter() - start) * 1e6)))
        return percentiles(latencies)


async def end_to_end(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        done, arrivals, loop = asyncio.Event(), Arrivals(asked.count), asyncio.get_running_loop()

        async def on_message(message: Msg) -> None:
            arrivals.saw(message.data)
            if arrivals.is_complete:
                done.set()

        await stream.subscribe(asked.topic, cb=on_message, ordered_consumer=True)
        wait_for_go()
        sender = paced(
            asked,
            lambda payload: asyncio.run_coroutine_threadsafe(stream.publish_async(asked.topic, payload), loop),
        )
        sender.start()
        await asyncio.wait_for(done.wait(), TIMEOUT_S + asked.count / asked.rate)
        await stream.publish_async_completed()
        return arrivals.found()


async def create(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        await stream.add_stream(StreamConfig(name=asked.topic, subjects=[asked.topic], storage=StorageType.FILE))
    return {}


async def delete(asked: Asked) -> Found:
    async with _connected(asked) as stream:
        with contextlib.suppress(NotFoundError):
            await stream.delete_stream(asked.topic)
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
    sys.exit(main(("nats-py",), MODES, sys.argv[1:]))
