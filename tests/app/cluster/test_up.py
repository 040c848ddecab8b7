"""`qanat cluster` on real processes: up, killed, restarted, moved, down; nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from tests.adapters.etcd_servers import etcd_members, etcd_program

from qanat.app.cluster.cluster_plan import INTER_BROKER_OFFSET
from qanat.app.cluster.local_cluster import _watch_etcd
from qanat.app.cluster.pid_file import read_pid_file

PATIENCE_S = 90.0


class Cluster:
    """Three brokers in a folder, spoken to by the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _base_port()
        self.bootstrap = ",".join(f"127.0.0.1:{self.port + number}" for number in range(3))

    def qanat(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "qanat.app", *words]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S + 60, check=False
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.qanat("cluster", "status", "-b", self.bootstrap, "-o", "json").stdout)
        return found

    def await_health(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status = self.status()
            if status["is_healthy"] and len(status["brokers"]) == 3:
                return status
            time.sleep(0.2)
        raise AssertionError(f"the cluster is not whole: {status}")


def _base_port() -> int:
    """A port with free neighbours, and free ones ten thousand above.

    All are below those that the kernel gives to clients: one of these is not to be had for a minute after its client
    has gone, and other tests have thousands of clients.
    """
    while True:
        port = SystemRandom().randrange(12_000, 22_000)
        if all(_is_free(port + above + number) for above in (0, INTER_BROKER_OFFSET) for number in range(3)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    up = made.qanat("cluster", "up", "--detach", "--port", str(made.port), "--http-port", "-1", "--restart-after", "1")
    assert up.returncode == 0, up.stderr
    yield made
    made.qanat("cluster", "down")


class Writer:
    """Writes until it is stopped, and stores what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._is_over.is_set():
            self._producer.produce("orders", b"%d" % number, b"%d" % number, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            time.sleep(0.002)
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.refused.append(error)

    def goes_on(self) -> None:
        """Return once more is acknowledged than now."""
        before, deadline = len(self.acknowledged), time.monotonic() + PATIENCE_S
        while len(self.acknowledged) <= before + 50:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.05)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def _read_all(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    seen: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(set(seen)) < count and time.monotonic() < deadline:
        seen += [one.value() or b"" for one in consumer.consume(1000, 0.5) if one.error() is None]
    consumer.close()
    return seen


@pytest.mark.long
@pytest.mark.data
def test_a_cluster_loses_nothing_when_brokers_are_killed_restarted_and_emptied(cluster: Cluster) -> None:
    create = cluster.qanat("topic", "create", "orders", "--partitions", "3", "-b", cluster.bootstrap)
    assert create.returncode == 0, create.stderr
    status = cluster.await_health()
    assert [one["address"] for one in status["brokers"]] == cluster.bootstrap.split(",")
    writer = Writer(cluster.bootstrap)
    try:
        writer.goes_on()
        victim = next(one for one in status["brokers"] if one["leads"])
        os.kill(victim["pid"], signal.SIGKILL)
        writer.goes_on()
        after = cluster.await_health()
        assert next(one for one in after["brokers"] if one["id"] == victim["id"])["pid"] != victim["pid"]

        restart = cluster.qanat("cluster", "restart", "-b", cluster.bootstrap)
        assert restart.returncode == 0, restart.stderr
        assert restart.stdout.count("was restarted") == 3
        drain = cluster.qanat("cluster", "drain", "2", "-b", cluster.bootstrap)
        assert drain.returncode == 0, drain.stderr
        assert next(one for one in cluster.status()["brokers"] if one["id"] == 2)["holds"] == 0
        writer.goes_on()
    finally:
        writer.stop()

    seen = _read_all(cluster.bootstrap, len(writer.acknowledged))
    assert writer.refused == []
    assert len(seen) == len(set(seen)), "each once"
    assert set(seen) >= set(writer.acknowledged)


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    made = Cluster(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", made.port))
        taken.listen()
        up = made.qanat("cluster", "up", "--port", str(made.port), "--http-port", "-1")

    assert up.returncode == 1
    assert f"broker 0 cannot have port {made.port}" in up.stderr


def test_the_etcd_of_others_is_not_taken_for_ours(tmp_path: Path) -> None:
    etcd_program()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up = Cluster(tmp_path).qanat("cluster", "up", "--store", "etcd", "--etcd-port", str(port))

    assert up.returncode == 1
    assert f"etcd cannot have port {port}" in up.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent has ended")
def test_no_broker_outlives_a_cluster_that_is_killed(tmp_path: Path) -> None:
    made = Cluster(tmp_path)
    words = ("cluster", "up", "--brokers", "1", "--port", str(made.port), "--http-port", "-1", "--detach")
    assert made.qanat(*words).returncode == 0
    note = read_pid_file(str(tmp_path / "data"))
    assert note is not None
    broker = Path(f"/proc/{note.brokers[0].pid}")
    twice = made.qanat(*words)
    os.kill(note.supervisor, signal.SIGKILL)

    assert f"a cluster of process {note.supervisor} runs on data" in twice.stderr
    deadline = time.monotonic() + PATIENCE_S
    while broker.exists():
        assert time.monotonic() < deadline, "the broker is still there"
        time.sleep(0.05)
    assert made.qanat("cluster", "down").stderr == "qanat: no cluster runs on data\n"


async def test_the_etcd_of_a_cluster_is_started_again_when_it_ends() -> None:
    with etcd_members() as (member,):
        killed = member.pid
        watching = asyncio.create_task(_watch_etcd(member, 0.0))
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while member.pid == killed:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.05)
        watching.cancel()
        member.wait()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("up", "--brokers", "0"), "write a number from 1 to 100"),
        (("up", "--port", "60000", "--http-port", "-1"), "broker 0 cannot have port 70000: ports go from 1 to 65535"),
        (("down",), "no cluster runs on data"),
        (("restart",), "qanat cluster up starts one"),
        (("reassign", "orders", "--to", "1"), "'orders' is not a partition: write topic:number"),
        (("reassign", "orders:0", "--to", "1,x"), "write broker ids, separated by commas"),
        (("reassign", "--plan", "nowhere.json"), "No such file"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    done = Cluster(tmp_path).qanat("cluster", *words)

    assert done.returncode in (1, 2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
