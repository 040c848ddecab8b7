"""Networks: the example of `examples/unix_network`, installed and used; names and packages that cannot be used."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.app.consumers import wait_until
from tests.app.processes import qanat, running_broker
from tests.servers.http.test_cluster import free_port

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "unix_network"
PAGE = ROOT / "docs" / "extending" / "networks.md"


def test_the_page_shows_the_example_as_it_is() -> None:
    blocks = dict(reversed(re.findall(r"```(toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)))
    assert blocks["toml"] == (EXAMPLE / "pyproject.toml").read_text()
    assert blocks["python"] == (EXAMPLE / "qanat_unix_network.py").read_text()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the example is installed."""
    package, target = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    for name in ("pyproject.toml", "qanat_unix_network.py"):
        (package / name).write_text((EXAMPLE / name).read_text())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *offline, str(package)], check=True, capture_output=True, text=True)
    return os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))


def test_kafka_clients_and_programs_of_the_machine_share_brokers_that_replicate_over_sockets(
    tmp_path: Path, installed: str
) -> None:
    sockets = Path(tmp_path, "sockets")
    sockets.mkdir()
    environment = {"PYTHONPATH": installed, "SOCKETS_DIR": str(sockets)}
    with ExitStack() as running:
        between = [free_port(), free_port()]
        brokers = []
        for number, port in enumerate(between):
            folder = tmp_path / str(number)
            folder.mkdir()
            line = ("--port", "0", "--node-id", str(number), "--data-dir", str(tmp_path / "data"))
            flags = ("-X", "network.type=unix", "-X", f"inter.broker.port={port}")
            brokers.append(running.enter_context(running_broker(folder, *line, *flags, environment=environment)))
        admin = AdminClient({"bootstrap.servers": brokers[0].address})
        wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, "both brokers")
        (made,) = admin.create_topics([NewTopic("prices", 1, 2)]).values()
        made.result(30)
        producer = Producer({"bootstrap.servers": brokers[0].address, "acks": "all"})
        outcomes: list[str] = []
        producer.produce("prices", b"182.30", b"AAPL", on_delivery=lambda error, _: outcomes.append(str(error)))
        assert producer.flush(30) == 0
        assert outcomes == ["None"]

        local = brokers[0].address.rpartition(":")[2]
        assert (sockets / f"{local}.sock").stat().st_mode & 0o777 == 0o600
        assert pushed(sockets / f"{local}.sock") == {"key": "AAPL", "value": "182.30"}
        connected = subprocess.run(["ss", "-xH"], capture_output=True, text=True, check=False).stdout
        if connected:
            assert any(f"{sockets}/{one}.sock" in connected for one in between), "replicas are fetched over sockets"
        assert [one.stop() for one in reversed(brokers)] == [0, 0]
        assert not list(sockets.iterdir()), "nothing is left behind"


def pushed(path: Path) -> dict[str, str]:
    """Key and value of the first record that is pushed over a socket, in the plain dialect."""
    with socket.socket(socket.AF_UNIX) as broker:
        broker.settimeout(60)
        broker.connect(str(path))
        wanted = json.dumps({"topic": "prices", "group": "till"}).encode()
        broker.sendall(struct.pack(">BQI", 3, 1, len(wanted)) + wanted)
        stream = broker.makefile("rb")
        while True:
            kind, _, length = struct.unpack(">BQI", stream.read(13))
            payload = stream.read(length)
            if kind == 1:
                record = json.loads(payload)
                return {"key": record["key"], "value": record["value"]}


@pytest.mark.parametrize("setting", ["network.type", "broker.network.type"])
def test_a_network_that_is_not_installed_gets_one_sentence(tmp_path: Path, setting: str) -> None:
    done = qanat("start", "--port", "0", "--data-dir", str(tmp_path), "-X", f"{setting}=udp")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("there is no network 'udp'; installed are tcp")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ZeroDivisionError('at import')", "cannot be loaded: at import"),
        ("class Net:\n    def __init__(self):\n        raise OSError('no card')", "cannot be used: no card"),
        ("class Other: pass", "cannot be loaded: "),
    ],
)
def test_a_network_that_cannot_be_used_gets_one_sentence(tmp_path: Path, source: str, reason: str) -> None:
    (tmp_path / "qanat_bad_net.py").write_text(source)
    package = tmp_path / "qanat_bad_net-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: qanat-bad-net\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[qanat.networks]\nbad = qanat_bad_net:Net\n")

    data = str(tmp_path / "data")
    done = qanat("start", "--port", "0", "--data-dir", data, "-X", "network.type=bad", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_a_network_cannot_claim_gets_one_sentence(tmp_path: Path, installed: str) -> None:
    environment = {"PYTHONPATH": installed, "SOCKETS_DIR": str(tmp_path / "missing")}
    data = str(tmp_path / "data")
    done = qanat("start", "--port", "0", "--data-dir", data, "-X", "network.type=unix", **environment)
    assert done.returncode != 0
    assert "cannot listen on" in done.stderr
    assert "Traceback" not in done.stderr
