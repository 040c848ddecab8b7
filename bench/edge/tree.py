"""A root and a child, each a broker as its users start it; the child reaches the root over a link."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tools.servers import Running, qanat

from bench.edge.link import Link
from qanat.app.bench.workspace import BenchRefusedError

BULK, URGENT = "bulk", "urgent"
_WAIT_S = 120.0


def call(port: int, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The JSON of an answer of a broker's HTTP server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        found = json.loads(answer.read() or b"null")
    finally:
        connection.close()
    if answer.status >= 300:
        raise BenchRefusedError(f"{method} {path} is answered with {answer.status}: {found}")
    return found


@contextlib.contextmanager
def root(folder: Path, port: int) -> Iterator[Running]:
    """The root, with both topics."""
    settings = {"http.port": str(port), "node.id": "root-1"}
    with qanat(settings).running(folder / "root") as broker:
        wait_until(lambda: _is_healthy(port), "the health of the root")
        for topic in (BULK, URGENT):
            call(port, "POST", "/api/v1/topics", {"name": topic, "partitions": 1})
        yield broker


@contextlib.contextmanager
def child(folder: Path, root_port: int) -> Iterator[Running]:
    """The child, whose registry and parent are at a port of the link; its data stays for the next start."""
    settings = {
        "node.id": "pos-1",
        "registry.url": f"http://127.0.0.1:{root_port}",
        "pipe.priority.topics": URGENT,
    }
    with qanat(settings).running(folder / "child") as broker:
        yield broker


def plant(port: int, link_port: int) -> None:
    """Both nodes get their places."""
    url = f"http://127.0.0.1:{link_port}"
    call(port, "PUT", "/api/v1/edge/nodes/root-1", {"role": "ROOT", "url": url})
    call(port, "PUT", "/api/v1/edge/nodes/pos-1", {"role": "POS", "parents": ["root-1"]})


def producer(broker: Running) -> Producer:
    options = {
        "bootstrap.servers": broker.address,
        "acks": "all",
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 1 << 20,
    }
    return Producer(options)


class Ends:
    """Where a broker's topics end."""

    def __init__(self, broker: Running) -> None:
        self._consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "ends"})

    def of(self, topic: str) -> int:
        with suppress(Exception):  # The topic is not there yet.
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
            return int(end)
        return 0

    def close(self) -> None:
        self._consumer.close()


def _is_healthy(port: int) -> bool:
    """Whether HTTP listens and says so; it does after the Kafka port."""
    with suppress(OSError):
        return bool(call(port, "GET", "/health"))
    return False


def wait_until(holds: Callable[[], bool], what: str, seconds: float = _WAIT_S, pause_s: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise BenchRefusedError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause_s)


@contextlib.contextmanager
def linked(rate_bytes_per_s: float, delay_s: float) -> Iterator[Link]:
    link = Link(rate_bytes_per_s, delay_s)
    try:
        yield link
    finally:
        link.close()
