"""Consumer applications as processes, against a real broker: killed with -9 in every state, nothing lost or mixed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import QANAT, clean_environment, qanat, running_broker

from qanat.client import PushProducer
from qanat.testing import EmbeddedBroker

WAIT_S = 120.0
SYMBOLS = ("AAPL", "GOOGL", "MSFT", "TSLA", "AMZN")


@dataclass
class RunningConsumer:
    """A process of `qanat edge consumer`, and its REST server."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def get(self, path: str) -> Any:
        """The answer; None where there is none, or it is an error."""
        try:
            with urllib.request.urlopen(self.address + path, timeout=30) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def wait_for(self, path: str, is_wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = self.get(path)
            if found is not None and is_wanted(found):
                return found
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            time.sleep(0.05)
        raise AssertionError(f"{path}: {self.get(path)}\n{self.log.read_text()[-2000:]}")

    def records(self, topic: str = "prices") -> list[tuple[int, int, Any]]:
        """Partition, offset and value of everything that is served."""
        found: list[tuple[int, int, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={cursor}" if cursor else ""
            page = self.wait_for(f"/api/v1/records?topic={topic}&limit=1000{after}", lambda answer: True)
            found += [(one["partition"], one["offset"], one["value"]) for one in page["records"]]
            cursor = page["next_cursor"]
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)


@contextlib.contextmanager
def running_consumer(folder: Path, address: str, **variables: str) -> Iterator[RunningConsumer]:
    host, _, port = address.rpartition(":")
    given = {"CONSUMER_TYPE": "price", "CONSUMER_TOPIC": "prices", "CONSUMER_GROUP": "till", "CONSUMER_PORT": "0"}
    environment = clean_environment(
        **given | {"BROKER_HOST": host, "BROKER_PORT": port, "STORAGE_DATA_DIR": str(folder / "data")} | variables
    )
    log = folder / "consumer.log"
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*QANAT, "edge", "consumer"], stdout=subprocess.PIPE, stderr=stderr, env=environment, text=True, cwd=folder
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http://" in line, log.read_text()
        yield RunningConsumer(process, line.split()[-1], log)
    finally:
        process.kill()
        process.wait(WAIT_S)
        process.stdout.close()


def write(address: str, first: int, end: int, topic: str = "prices") -> None:
    with PushProducer(address) as producer:
        sent = [producer.send(topic, b"%d" % n, key=b"k%d" % (n % 7), partition=0) for n in range(first, end)]
        for one in sent:
            one.result(WAIT_S)


def test_the_flow_of_the_seed_with_its_own_variables(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("price-topic")
        address = broker.bootstrap_servers
        variables = {"CONSUMER_TOPIC": "price-topic", "CONSUMER_GROUP": "price-group"}
        with running_consumer(tmp_path, address, **variables) as consumer:
            consumer.wait_for("/health", lambda health: health["status"] == "HEALTHY")
            with PushProducer(address) as producer:
                for symbol in SYMBOLS:
                    producer.send("price-topic", b'{"price": 1.5}', key=symbol.encode()).result(WAIT_S)
            status = consumer.wait_for("/api/v1/status", lambda status: status["records"] == 5)
            assert [(one["start_offset"], one["end_offset"]) for one in status["partitions"]] == [(0, 5)]
            latest = consumer.get("/api/v1/latest")["records"]
            assert sorted(one["key"] for one in latest) == sorted(SYMBOLS)
            assert {one["value"]["price"] for one in latest} == {1.5}
            consumer.process.send_signal(signal.SIGTERM)
            assert consumer.process.wait(WAIT_S) == 0
        described = qanat("group", "describe", "price-group", "-o", "json", "-b", address)
        assert '"committed": 5' in described.stdout, described.stdout + described.stderr
        with running_consumer(tmp_path, address, **variables) as again:
            assert again.wait_for("/api/v1/latest/TSLA", lambda answer: True)["offset"] == 3


def test_without_a_group_it_continues_by_what_it_holds(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        address = broker.bootstrap_servers
        write(address, 0, 20)
        with running_consumer(tmp_path, address, CONSUMER_GROUP="") as consumer:
            consumer.wait_for("/api/v1/status", lambda status: status["records"] == 20)
            consumer.kill()
        write(address, 20, 30)
        with running_consumer(tmp_path, address, CONSUMER_GROUP="") as again:
            again.wait_for("/api/v1/status", lambda status: status["records"] == 30)
            assert again.records() == [(0, n, n) for n in range(30)]
            with urllib.request.urlopen(again.address + "/metrics", timeout=30) as metrics:
                assert "qanat_consumer_records_duplicate_total 0\n" in metrics.read().decode()


@pytest.mark.long
@pytest.mark.data
def test_killed_again_and_again_while_records_come_it_holds_each_once(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", "--data-dir", "broker") as broker:
        created = qanat("topic", "create", "prices", "--partitions", "1", "-b", broker.address)
        assert created.returncode == 0, created.stderr
        for round_ in range(4):
            with running_consumer(tmp_path, broker.address) as consumer:
                write(broker.address, 500 * round_, 500 * (round_ + 1))
                time.sleep(0.05 * round_)
                consumer.kill()
        with running_consumer(tmp_path, broker.address) as consumer:
            consumer.wait_for("/api/v1/status", lambda status: status["records"] == 2000)
            assert consumer.records() == [(0, n, n) for n in range(2000)]


@pytest.mark.long
@pytest.mark.data
def test_a_broker_that_is_killed_costs_nothing_and_what_is_held_is_served_meanwhile(tmp_path: Path) -> None:
    port = str(free_port())
    arguments = ("--port", port, "--data-dir", "broker")
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(running_broker(tmp_path, *arguments))
        qanat("topic", "create", "prices", "--partitions", "1", "-b", broker.address)
        consumer = stack.enter_context(running_consumer(tmp_path, broker.address))
        for round_ in range(3):
            write(broker.address, 300 * round_, 300 * (round_ + 1))
            broker.stop(signal.SIGKILL)
            held = consumer.get("/api/v1/status")["records"]
            assert len(consumer.records()) >= held
            broker = stack.enter_context(running_broker(tmp_path, *arguments))
            consumer.wait_for("/api/v1/status", holds(300 * (round_ + 1)))
        assert consumer.records() == [(0, n, n) for n in range(900)]


def holds(count: int) -> Callable[[Any], bool]:
    return lambda status: status["records"] == count


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        ((), {}, "no topic is named: set CONSUMER_TOPIC"),
        ((), {"CONSUMER_TOPCI": "prices"}, "CONSUMER_TOPCI is no setting"),
        (("--topic", "a b"), {}, "consumer.topic = 'a b' (--topic): Topic name is invalid"),
        (("--topic", "a,a"), {}, "name each topic once"),
        (("--topic", "a"), {"CONSUMER_PORT": "x"}, "consumer.port = 'x' (environment variable CONSUMER_PORT): a whole"),
        (("--topic", "a"), {"BROKER_PORT": "70000"}, "broker.port = '70000'"),
        (("--topic", "a"), {"BROKER_HOST": "http://queue-1"}, "broker.host = 'http://queue-1' (environment variable"),
        (("--topic", "a", "--broker-host", "queue-1:9092"), {}, "broker.port has the port"),
        (("--topic", "a", "--type", "a\nb"), {}, "it has characters that cannot be printed"),
        (("--topic", "a", "--host", "192.0.2.1", "--port", "0"), {}, "CONSUMER_HOST has to be an address of this"),
        (("--topic", "a", "-X", "security.protocol=SSL", "-X", "ssl.ca.location=/no/ca"), {}, "ssl.ca.location /no/ca"),
        (("--topic", "a", "--config", "wrong.yml"), {}, "unknown setting 'consumer.topik' (wrong.yml line 2)"),
        (("--config", "twice.yml"), {}, "consumer.topic is given twice: twice.yml line 1 and twice.yml line 2"),
        (("--topic", "a", "--config", "nothing.yml"), {}, "cannot read the settings file nothing.yml"),
        (("--topic", "a", "--data-dir", "file"), {}, "file"),
        (("--topic", "a", "-X", "sasl.mechanism=NONE"), {}, "sasl"),
    ],
)
def test_a_wrong_setting_gets_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], sentence: str
) -> None:
    (tmp_path / "wrong.yml").write_text("consumer:\n  topik: prices\n")
    (tmp_path / "twice.yml").write_text("consumer.topic: a\nconsumer: {topic: b}\n")
    (tmp_path / "file").write_text("")
    refused = subprocess.run(
        [*QANAT, "edge", "consumer", *arguments],
        cwd=tmp_path,
        env=clean_environment(**variables),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("qanat: ")
    assert sentence in line


def test_a_file_of_settings_is_read_with_variables(tmp_path: Path) -> None:
    (tmp_path / "consumer.yml").write_text(
        "consumer:\n  topic: ${TOPIC:prices}\n  port: 0\nbroker:\n  port: 1\nstorage:\n  data-dir: ./kept\n"
    )
    environment = clean_environment(TOPIC="fx")
    process = subprocess.Popen(
        [*QANAT, "edge", "consumer", "--config", "consumer.yml"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("fx consumer: fx from localhost:1, http://127.0.0.1:")
        assert (tmp_path / "kept" / "application.json").exists()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()


def refreshed(address: str) -> None:
    begun = qanat("push", "refresh", "till", "--topic", "prices", "-b", address)
    assert begun.returncode == 0, begun.stderr


def test_a_refresh_is_served_at_once_and_not_before_it_is_complete(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        address = broker.bootstrap_servers
        write(address, 0, 50)
        with running_consumer(tmp_path, address) as consumer:
            consumer.wait_for("/api/v1/status", lambda status: status["records"] == 50)
            refreshed(address)
            seen: list[dict[str, Any]] = []
            while not seen or seen[-1]["partitions"][0]["generation"] == 1:
                seen.append(consumer.wait_for("/api/v1/status", lambda status: True))
                assert len(seen) < 5_000
                time.sleep(0.02)
            assert {status["records"] for status in seen} == {50}, "nothing was served in part"
            write(address, 50, 60)
            consumer.wait_for("/api/v1/status", lambda status: status["records"] == 60)
            assert consumer.records() == [(0, n, n) for n in range(60)]
        folders = [path.name for path in (tmp_path / "data" / "generations").glob("*/prices-0")]
        assert folders == ["prices-0"]
        assert (tmp_path / "data" / "generations" / "2" / "prices-0").exists()


@pytest.mark.long
@pytest.mark.data
def test_an_application_killed_in_the_middle_of_a_refresh_completes_it_and_serves_the_old_until_then(
    tmp_path: Path,
) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("prices")
        address = broker.bootstrap_servers
        write(address, 0, 3000)
        with running_consumer(tmp_path, address) as consumer:
            consumer.wait_for("/api/v1/status", lambda status: status["records"] == 3000)
            refreshed(address)
            consumer.kill()
        for pause_s in (0.0, 0.05, 0.2):
            with running_consumer(tmp_path, address) as consumer:
                assert consumer.wait_for("/api/v1/status", lambda status: True)["records"] == 3000
                time.sleep(pause_s)
                consumer.kill()
        with running_consumer(tmp_path, address) as consumer:
            done = consumer.wait_for("/api/v1/status", lambda status: status["partitions"][0]["generation"] == 2)
            assert (done["records"], done["refresh"]) == (3000, None)
            assert consumer.records() == [(0, n, n) for n in range(3000)]
