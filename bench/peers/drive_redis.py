"""The driver of Redis Streams: redis-py with hiredis, commands in pipelines of a thousand."""

from __future__ import annotations

import sys
import time
from typing import Any

from redis import Redis

from bench.peers.driving import (
    SYNC_WARM_UP,
    TIMEOUT_S,
    Arrivals,
    Asked,
    Found,
    Mode,
    main,
    paced,
    percentiles,
    throughput,
    wait_for_go,
)
from qanat.app.bench.clients.latencies import Latencies

PIPELINE = 1_000
_FIELD = b"m"
_BLOCK_MS = 1_000


def _connected(asked: Asked) -> Any:
    """Untyped: the results of commands depend on settings that redis-py's types do not know."""
    return Redis(asked.host, asked.port, socket_timeout=TIMEOUT_S)


def _add_all(redis: Any, asked: Asked, count: int) -> None:
    payload = asked.payload
    for begin in range(0, count, PIPELINE):
        pipeline = redis.pipeline(transaction=False)
        for _ in range(min(PIPELINE, count - begin)):
            pipeline.xadd(asked.topic, {_FIELD: payload})
        pipeline.execute()


def produce(asked: Asked) -> Found:
    redis = _connected(asked)
    _add_all(redis, asked, asked.warm_up_count)
    wait_for_go()
    start = time.perf_counter()
    _add_all(redis, asked, asked.count)
    return throughput(start, asked.count)


def consume(asked: Asked) -> Found:
    redis = _connected(asked)
    redis.ping()
    wait_for_go()
    start, seen, last = time.perf_counter(), 0, b"0"
    while seen < asked.count:
        found = redis.xread({asked.topic: last}, count=PIPELINE, block=_BLOCK_MS)
        if not found:
            raise SystemExit("driver: messages are missing")
        entries = found[0][1]
        last, seen = entries[-1][0], seen + len(entries)
    return throughput(start, seen)


def sync(asked: Asked) -> Found:
    redis, latencies = _connected(asked), Latencies()
    message = {_FIELD: asked.payload}
    for _ in range(SYNC_WARM_UP):
        redis.xadd(asked.topic, message)
    wait_for_go()
    for _ in range(asked.count):
        start = time.perf_counter()
        redis.xadd(asked.topic, message)
        latencies.record(max(1, round((time.perf_counter() - start) * 1e6)))
    return percentiles(latencies)


def end_to_end(asked: Asked) -> Found:
    reader, writer, last = _connected(asked), _connected(asked), b"0"
    writer.ping()
    reader.ping()
    wait_for_go()
    arrivals = Arrivals(asked.count)
    sender = paced(asked, lambda payload: writer.xadd(asked.topic, {_FIELD: payload}))
    sender.start()
    deadline = time.monotonic() + TIMEOUT_S + asked.count / asked.rate
    while not arrivals.is_complete:
        found = reader.xread({asked.topic: last}, count=PIPELINE, block=_BLOCK_MS)
        if time.monotonic() > deadline:
            raise SystemExit("driver: messages are missing")
        for entry, fields in found[0][1] if found else ():
            last = entry
            arrivals.saw(fields[_FIELD])
    sender.join()
    return arrivals.found()


def create(asked: Asked) -> Found:
    """A stream exists from its first message on."""
    _connected(asked).delete(asked.topic)
    return {}


MODES: dict[str, Mode] = {
    "produce": produce,
    "consume": consume,
    "sync": sync,
    "endtoend": end_to_end,
    "create": create,
    "delete": create,
}

if __name__ == "__main__":
    sys.exit(main(("redis", "hiredis"), MODES, sys.argv[1:]))
