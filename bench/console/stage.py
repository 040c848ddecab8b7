"""The stage: one broker with very many topics and groups."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tools.servers import qanat

PARTITIONS = 4
READ = "topic-00000"
"""The topic that has records, and that groups read."""
RECORDS = 20_000
_BATCH = 250
_TIMEOUT_S = 300.0


class Stage(NamedTuple):
    """A broker."""

    address: str
    http: str
    pid: int

    def get(self, path: str) -> Any:
        return json.loads(self.ask("GET", path)[1])

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_S)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextlib.contextmanager
def stage(folder: Path, topics: int, groups: int) -> Iterator[Stage]:
    """A broker with so many topics, of four partitions each, and groups."""
    from tools.servers import free_port

    port = free_port()
    with qanat({"http.port": port, "group.lag.interval.ms": 1000}).running(folder) as running:
        made = Stage(running.address, f"127.0.0.1:{port}", running.pid)
        _make_topics(made, topics)
        _fill(made)
        _make_groups(made, groups)
        yield made


def _make_topics(made: Stage, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": made.address, "socket.timeout.ms": int(_TIMEOUT_S * 1000)})
    names = [f"topic-{number:05d}" for number in range(count)]
    for first in range(0, count, _BATCH):
        wanted = [NewTopic(name, PARTITIONS, 1) for name in names[first : first + _BATCH]]
        for future in admin.create_topics(wanted, operation_timeout=_TIMEOUT_S).values():
            future.result(_TIMEOUT_S)


def _fill(made: Stage) -> None:
    for first in range(0, RECORDS, 1000):
        rows = [
            {"key": f"k{n % 100}", "value": {"amount": n, "who": f"customer-{n % 997}"}}
            for n in range(first, first + 1000)
        ]
        status, body = made.ask("POST", f"/api/v1/topics/{READ}/records", rows)
        if status != 200:
            raise RuntimeError(f"records are refused: {body!r}")


def _make_groups(made: Stage, count: int) -> None:
    def commit(number: int) -> None:
        offsets = [{"topic": READ, "partition": number % PARTITIONS, "offset": number % 1000}]
        made.ask("POST", f"/api/v1/groups/group-{number:05d}/offsets", {"offsets": offsets})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(commit, range(count)))


def until_collected(made: Stage) -> None:
    """Wait until sizes and lag are there."""
    deadline = time.monotonic() + _TIMEOUT_S
    while made.get("/api/v1/topics?traffic=true&limit=1")["topics"][0]["traffic"] is None:
        if time.monotonic() > deadline:
            raise RuntimeError("the broker collects no sizes")
        time.sleep(0.2)
    made.get("/api/v1/groups?lag=true&limit=1")
