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
TIMEOUT_S = 60


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


def call(broker: RunningBroker, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Any]:
    host, _, port = str(broker.started["http"]).removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wait_for_three(broker: RunningBroker) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while len(call(broker, "GET", "/api/v1/brokers")[1]["brokers"]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def values_of(topic: str, brokers: list[RunningBroker]) -> list[Any]:
    """Every value, read by cursors at whichever node answers."""
    values: list[Any] = []
    cursor = ""
    while True:
        broker = brokers[len(values) % len(brokers)]
        status, page = call(broker, "GET", f"/api/v1/topics/{topic}/records?count=100{cursor}")
        assert status == 200, page
        if not page["messages"]:
            return values
        values += [message["value"] for message in page["messages"]]
        cursor = f"&cursor={page['next_cursor']}"


def waiting_readers_delay_no_client(broker: RunningBroker) -> None:
    """Readers wait at every leader through one node; writes to the same leaders through it do not wait for them."""
    assert call(broker, "POST", "/api/v1/topics", {"name": "quiet", "partitions": 3, "replication_factor": 3})[0] == 201
    path = "/consume?topic=quiet&offset=0&timeout_ms=20000&partition="
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(call, broker, "GET", f"{path}{number}") for number in range(3)]
        time.sleep(0.2)
        for number in range(3):
            assert call(broker, "POST", "/produce", {"topic": "loud", "partition": number, "value": number})[0] == 200
        assert not any(reader.done() for reader in readers)
        for number in range(3):
            assert call(broker, "POST", "/produce", {"topic": "quiet", "partition": number, "value": 1})[0] == 200
        assert [len(reader.result(TIMEOUT_S)[1]["messages"]) for reader in readers] == [1, 1, 1]


def any_node_answers_for_a_member(brokers: list[RunningBroker]) -> str:
    """Joined at one, heard of at the others; its id."""
    status, joined = call(brokers[0], "POST", "/subscribe", {"group": "any", "topics": ["quiet"], "timeout_ms": 10_000})
    assert (status, joined["assigned_partitions"]) == (200, [0, 1, 2])
    member = f"/api/v1/groups/any/members/{joined['member_id']}"
    for broker in brokers:
        assert call(broker, "POST", f"{member}/heartbeat")[1]["assigned_partitions"] == [0, 1, 2]
    status, page = call(brokers[1], "GET", f"{member}/records?timeout_ms=10000")
    assert (status, len(page["messages"])) == (200, 3)
    commit = {"member_id": joined["member_id"], "offsets": page["offsets"]}
    assert call(brokers[2], "POST", "/api/v1/groups/any/offsets", commit)[0] == 200
    assert call(brokers[0], "GET", f"{member}/records")[1]["messages"] == []
    return str(joined["member_id"])


def produce_plainly(broker: RunningBroker, killed: threading.Event) -> list[str]:
    """Without keys, one after the other, until some time after a leader was killed: every one is acknowledged."""
    sent: list[str] = []
    after = 0
    while after < 30:
        after += killed.is_set()
        sent.append(f"{broker.process.pid}-{len(sent)}")
        status, answer = call(broker, "POST", "/produce", {"topic": "plain", "key": sent[-1], "value": sent[-1]})
        assert status == 200, answer
    return sent


@pytest.mark.long
@pytest.mark.data
def test_any_node_answers_and_a_killed_one_loses_nothing_and_doubles_nothing(cluster: list[RunningBroker]) -> None:
    wait_for_three(cluster[0])
    made = Shell(str(cluster[0].started["http"]))(PRINTED % 3)
    assert (made["partitions"], made["replication_factor"]) == (10, 3)
    for number in range(6):
        made_now = {"name": f"now-{number}", "partitions": 3, "replication_factor": 3}
        assert call(cluster[number % 3], "POST", "/api/v1/topics", made_now)[0] == 201
        for broker in cluster:
            status, page = call(broker, "GET", f"/api/v1/topics/now-{number}/records")
            assert (status, page["messages"]) == (200, []), page
    for topic in ("plain", "loud"):
        assert (
            call(cluster[0], "POST", "/api/v1/topics", {"name": topic, "partitions": 3, "replication_factor": 3})[0]
            == 201
        )

    first = call(cluster[0], "POST", "/produce", {"topic": "test-topic", "value": -1}, "same")
    assert first[0] == 200
    assert [call(broker, "POST", "/produce", {"topic": "test-topic", "value": -1}, "same") for broker in cluster] == [
        first
    ] * 3

    waiting_readers_delay_no_client(cluster[0])
    member = any_node_answers_for_a_member(cluster)

    survivors = cluster[:2]
    killed = threading.Event()

    def produce(number: int) -> None:
        """Repeat under one key, at whichever node answers, until it is acknowledged."""
        deadline = time.monotonic() + TIMEOUT_S
        for attempt in range(10_000):
            broker = survivors[(number + attempt) % 2] if killed.is_set() else cluster[(number + attempt) % 3]
            answer: object = None
            with contextlib.suppress(OSError, http.client.HTTPException):
                body = {"topic": "test-topic", "key": f"k{number}", "value": number}
                status, answer = call(broker, "POST", "/produce", body, f"key-{number}")
                if status == 200:
                    return
            assert time.monotonic() < deadline, f"record {number} was not acknowledged: {answer}"
            time.sleep(0.1)

    with ThreadPoolExecutor(8) as pool:
        acknowledged = [pool.submit(produce, number) for number in range(20)]
        plain = [pool.submit(produce_plainly, broker, killed) for broker in survivors]
        acknowledged[5].result(TIMEOUT_S)
        cluster[2].process.send_signal(signal.SIGKILL)
        killed.set()
        for broker in survivors:
            assert call(broker, "POST", f"/api/v1/groups/any/members/{member}/heartbeat")[0] == 200
        for one in acknowledged:
            one.result(TIMEOUT_S * 2)
        sent = [value for one in plain for value in one.result(TIMEOUT_S * 2)]

    assert sorted(values_of("test-topic", survivors)) == list(range(-1, 20))
    assert sorted(values_of("plain", survivors)) == sorted(sent)
    health = call(survivors[0], "GET", "/health")[1]
    assert (health["status"], health["ready"]) == ("DEGRADED", True)
    assert health["degraded_count"] > 0


def lines_of(values: list[int]) -> bytes:
    return b"".join(b'{"key":"k%d","value":%d}\n' % (value, value) for value in values)


def write_all_kinds(broker: RunningBroker, first: int, stop: threading.Event) -> list[int]:
    """Single records, arrays and lines without keys, in turns, until `stop` is set: all of them are acknowledged."""
    address = str(broker.started["http"])
    sent: list[int] = []
    while not stop.is_set():
        values = [first + len(sent) + number for number in range((1, 10, 50)[len(sent) % 3])]
        path, kind = "/api/v1/topics/plain/records", "application/json"
        body: bytes = msgspec.json.encode([{"value": value} for value in values])
        if len(values) == 1:
            body = msgspec.json.encode({"value": values[0], "key": "k"})
        elif len(values) == 50:
            kind, body = "application/x-ndjson", lines_of(values)
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=TIMEOUT_S)
        connection.request("POST", path, body, {"Content-Type": kind})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()
        connection.close()
        sent += values
    return sent


@pytest.mark.long
def test_plain_writes_survive_a_leader_that_hangs_and_one_that_is_killed(cluster: list[RunningBroker]) -> None:
    wait_for_three(cluster[0])
    made = {"name": "plain", "partitions": 6, "replication_factor": 3}
    assert call(cluster[0], "POST", "/api/v1/topics", made)[0] == 201
    stop = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write_all_kinds, cluster[0], number * 10_000_000, stop) for number in range(4)]
        try:
            time.sleep(1)
            cluster[2].process.send_signal(signal.SIGSTOP)
            wait_until_nothing_is_led_by(cluster[0], 2)
            cluster[2].process.send_signal(signal.SIGCONT)
            wait_for_three(cluster[0])
            time.sleep(3)
            cluster[1].process.send_signal(signal.SIGKILL)
            wait_until_nothing_is_led_by(cluster[0], 1)
            time.sleep(1)
        finally:
            cluster[2].process.send_signal(signal.SIGCONT)
            stop.set()
        sent = [value for writer in writers for value in writer.result(TIMEOUT_S)]

    assert sorted(values_of("plain", [cluster[0], cluster[2]])) == sorted(sent)


def wait_until_nothing_is_led_by(broker: RunningBroker, node_id: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        rows = call(broker, "GET", "/api/v1/topics/plain")[1]["partition_details"]
        if all(row["leader"] not in (node_id, -1) for row in rows):
            return
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
@pytest.mark.data
def test_keys_are_written_once_though_a_leader_is_killed_right_after_it_answered(
    cluster: list[RunningBroker],
) -> None:
    wait_for_three(cluster[0])
    made = {"name": "orders", "partitions": 1, "replication_factor": 3}
    assert call(cluster[0], "POST", "/api/v1/topics", made)[0] == 201
    keys = range(24)

    def produce(broker: RunningBroker, number: int) -> Any:
        """Under its key, again and again, until it is acknowledged."""
        deadline = time.monotonic() + TIMEOUT_S
        body = {"topic": "orders", "partition": 0, "value": f"order-{number}"}
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                status, answer = call(broker, "POST", "/produce", body, key=f"key-{number}")
                if status == 200:
                    return answer
            time.sleep(0.05)
        raise AssertionError(f"order {number} was not acknowledged")

    with ThreadPoolExecutor(len(keys)) as pool:
        list(pool.map(lambda number: produce(cluster[1], 1000 + number), keys))  # So that this node owns every shard.
        first = list(pool.map(lambda number: produce(cluster[1], number), keys))
        cluster[2].process.kill()
        assert list(pool.map(lambda number: produce(cluster[0], number), keys)) == first
    values = values_of("orders", cluster[:2])
    assert sorted(values) == sorted(f"order-{number}" for number in (*keys, *(1000 + number for number in keys)))
