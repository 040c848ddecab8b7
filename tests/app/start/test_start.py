"""`qanat start` and `qanat dev` as processes: started from a command line, stopped by signals."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.app.processes import QANAT, clean_environment, qanat, running_broker
from tests.app.test_settings import APPLICATION


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_node_with_a_name_keeps_its_number_over_restarts(tmp_path: Path) -> None:
    port = str(free_port())
    environment = {"NODE_ID": "local-001", "BROKER_PORT": port, "DATA_DIR": "./data-local", "HTTP_PORT": "8081"}
    seen = []
    for _ in range(2):
        with running_broker(tmp_path, environment=environment) as broker:
            seen.append((broker.started["node"], broker.started["cluster"], broker.address))
            assert broker.stop() == 0
            assert [line["event"] for line in broker.events()][-2:] == ["stopping", "stopped"]

    assert seen[0] == seen[1]
    assert seen[0][0] == 1
    assert seen[0][2] == f"127.0.0.1:{port}"
    assert "node.id=1" in (tmp_path / "data-local" / "broker-1" / "meta.properties").read_text()


def test_an_application_yml_starts_a_broker(tmp_path: Path) -> None:
    (tmp_path / "application.yml").write_text(APPLICATION)
    environment = {"BROKER_PORT": str(free_port())}
    with running_broker(tmp_path, "--config", "application.yml", environment=environment) as broker:
        assert broker.stop(signal.SIGINT) == 0
        notices = [str(line["event"]) for line in broker.events() if "has no effect" in str(line["event"])]

    assert len(notices) == 2
    assert "local-001" in (tmp_path / "banner.txt").read_text()


def test_the_banner_says_what_matters(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", "--data-dir", "store", "--node-id", "7") as broker:
        broker.stop()
        lines = dict(line.split(maxsplit=1) for line in (tmp_path / "banner.txt").read_text().splitlines())

    assert lines["node"] == "7"
    assert lines["kafka"] == broker.address
    assert lines["data"].startswith("store")
    assert "on disk" in lines["durability"]
    assert lines["recovered"] == "nothing: the data directory is new"
    assert lines["cluster"] == broker.started["cluster"]


def test_a_throw_away_broker_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_broker(tmp_path, command="dev", environment={"QANAT_PORT": "1"}) as broker:
        assert broker.address != "127.0.0.1:1"
        assert broker.stop() == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["banner.txt", "broker-0.log"]


def test_an_address_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = qanat("start", "--port", str(port), "--data-dir", str(tmp_path))

    assert result.returncode == 1
    assert result.stderr.startswith(f"qanat: cannot listen on 127.0.0.1:{port}: ")
    assert "Traceback" not in result.stderr


def test_brokers_and_clients_cannot_share_a_port(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    result = qanat("start", "--port", port, "--data-dir", str(tmp_path / "data"), "-X", f"inter.broker.port={port}")

    assert result.returncode == 1
    assert f"inter.broker.port {port} is the port of clients" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_directory_in_use_is_one_sentence(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", "--data-dir", "data"):
        result = qanat("start", "--port", "0", "--data-dir", str(tmp_path / "data"))

    assert result.returncode == 1
    assert "is in use by process" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = qanat("start", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))

    assert result.returncode == 1
    assert result.stderr.startswith("qanat: cannot create the data directory ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("-X", "num.partitons=3"), 1, "did you mean num.partitions?"),
        (("--config", "nowhere.yml"), 1, "cannot read the settings file nowhere.yml"),
        (("--port", "many"), 2, "many"),
        (("-X", "storage.engine=tape"), 1, "there is no storage engine 'tape'"),
    ],
)
def test_a_wrong_start_says_what_is_wrong(tmp_path: Path, arguments: tuple[str, ...], code: int, part: str) -> None:
    result = qanat("start", "--data-dir", str(tmp_path / "data"), *arguments)

    assert result.returncode == code
    assert part in result.stderr
    assert "Traceback" not in result.stderr


def test_defaults_of_topics_that_a_broker_is_started_with_hold(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", "-X", "log.retention.ms=1234", "-X", "num.partitions=2") as broker:
        address = {"QANAT_BOOTSTRAP_SERVERS": broker.address}
        created = qanat("topic", "create", "orders", **address)
        topic = json.loads(qanat("config", "get", "topic", "orders", "retention.ms", "-o", "json", **address).stdout)
        own = json.loads(qanat("config", "get", "broker", "0", "log.retention.ms", "-o", "json", **address).stdout)

    assert created.stdout == "created orders with 2 partitions\n"
    assert [(row["value"], row["source"]) for row in [*topic, *own]] == [("1234", "broker, at start")] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-X", "num.partitions=abc"), "num.partitions = 'abc' (-X num.partitions=abc): a whole number is expected"),
        (
            ("-X", "num.partitions=0"),
            "num.partitions = '0' (-X num.partitions=0): a whole number of at least 1 is expected",
        ),
        (("--port=70000",), "port = '70000' (--port): a whole number of at most 65535 is expected"),
        (
            ("-X", "auto.create.topics.enable=maybe"),
            "auto.create.topics.enable = 'maybe' (-X auto.create.topics.enable=maybe): true or false is expected",
        ),
        (("--data-dir=",), "data.dir = '' (--data-dir): exactly one directory is needed"),
        (("--data-dir", ""), "data.dir = '' (--data-dir): exactly one directory is needed"),
        (("--node-id=-5",), "node.id = '-5' (--node-id): write a number from 0 on, or a name that begins with "),
        (("-X", "port=1", "-X", "port=2"), "port is given twice: -X port=1 and -X port=2"),
        (("--port=1", "-X", "listeners=PLAINTEXT://:2"), "port is given twice: --port and -X listeners=PLAINTEXT://:2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_setting_that_cannot_be_meant_is_refused_with_its_origin(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = subprocess.run(
        [*QANAT, "start", *arguments], cwd=tmp_path, capture_output=True, text=True, env=clean_environment(), timeout=60
    )

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"qanat: {message}")


def test_what_dev_presets_may_be_said_otherwise(tmp_path: Path) -> None:
    with running_broker(tmp_path, "-X", "group.initial.rebalance.delay.ms=5", command="dev") as broker:
        assert broker.stop() == 0


def test_a_bench_of_nothing_is_refused(tmp_path: Path) -> None:
    result = subprocess.run([*QANAT, "bench", "log", "--only", ","], cwd=tmp_path, capture_output=True, text=True)

    assert (result.returncode, result.stderr[:31]) == (1, "qanat: --only , names no figure")
