"""A cluster of three over HTTP: any node answers, also when one of them dies in the middle of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.app.processes import RunningBroker, running_broker
from tests.servers.http.test_contract import PRINTED, Shell

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
PATIENCE_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with contextlib.ExitStack() as running:
        brokers = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            settings = [f"inter.broker.port={free_port()}", "http.port=0", "transaction.state.log.num.partitions=3"]
            flags = [part for one in settings for part in ("-X", one)]
            data = str(tmp_path / "data")
            line = ("--port", "0", "--node-id", str(number), "--data-dir", data, *flags)
            brokers.append(running.enter_context(running_broker(folder, *line)))
        yield brokers


def ask(broker: RunningBroker, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Any]:
    host, _, port = str(broker.started["http"]).removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    try:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wait_for_three(broker: RunningBroker) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(ask(broker, "GET", "/api/v1/brokers")[1]["brokers"]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_any_node_answers_and_a_killed_one_loses_nothing_and_doubles_nothing(cluster: list[RunningBroker]) -> None:
    wait_for_three(cluster[0])
    made = Shell(str(cluster[0].started["http"]))(PRINTED % 3)
    assert (made["partitions"], made["replication_factor"]) == (10, 3)

    first = ask(cluster[0], "POST", "/produce", {"topic": "test-topic", "value": -1}, "same")
    assert first[0] == 200
    assert [ask(broker, "POST", "/produce", {"topic": "test-topic", "value": -1}, "same") for broker in cluster] == [
        first
    ] * 3

    survivors = cluster[:2]
    killed = threading.Event()

    def produce(number: int) -> None:
        """Repeat under one key, at whichever node answers, until it is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        for attempt in range(10_000):
            broker = survivors[(number + attempt) % 2] if killed.is_set() else cluster[(number + attempt) % 3]
            told: object = None
            with contextlib.suppress(OSError, http.client.HTTPException):
                body = {"topic": "test-topic", "key": f"k{number}", "value": number}
                status, told = ask(broker, "POST", "/produce", body, f"key-{number}")
                if status == 200:
                    return
            assert time.monotonic() < deadline, f"record {number} was not acknowledged: {told}"
            time.sleep(0.1)

    with ThreadPoolExecutor(4) as pool:
        acknowledged = [pool.submit(produce, number) for number in range(20)]
        acknowledged[5].result(PATIENCE_S)
        cluster[2].process.send_signal(signal.SIGKILL)
        killed.set()
        for one in acknowledged:
            one.result(PATIENCE_S * 2)

    values: list[int] = []
    cursor = ""
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < 21 and time.monotonic() < deadline:
        status, page = ask(survivors[len(values) % 2], "GET", f"/api/v1/topics/test-topic/records?count=7{cursor}")
        if status == 200:
            values += [message["value"] for message in page["messages"]]
            cursor = f"&cursor={page['next_cursor']}"
    assert sorted(values) == list(range(-1, 20))
    health = ask(survivors[0], "GET", "/health")[1]
    assert (health["status"], health["ready"]) == ("DEGRADED", True)
    assert health["degraded_count"] > 0
