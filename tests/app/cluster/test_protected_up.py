"""A local cluster with authentication comes up by itself, and every port that it opens is closed to others."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.app.cluster.test_up import _base_port
from tests.servers.kafka.raw import RawClient
from tests.servers.tls.certificates import Authority

from qanat.app.cluster.cluster_plan import INTER_BROKER_OFFSET, plan_cluster
from qanat.app.cluster.local_security import with_secrets
from qanat.app.node.serving import StartFlags
from qanat.app.settings.loading import load
from qanat.app.start.workers import _settings as workers_settings
from qanat.model.errors import InvalidSettingError
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.produce import ProduceRequest
from qanat.wire.kafka.registry import ApiKey

IN_TIME_S = 120


@contextlib.contextmanager
def cluster(folder: Path, port: int, *settings: str) -> Iterator[str]:
    """Two brokers; yields what they print once they serve."""
    words = [word for one in settings for word in ("-X", one)]
    command = [sys.executable, "-m", "qanat.app", "cluster", "up", "--brokers", "2", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--http-port", str(port + 10), *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while "  data " not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            yield printed + process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(IN_TIME_S) == 0
        finally:
            process.kill()


def is_answered(port: int, key: ApiKey, request: object) -> bool:
    with RawClient(f"127.0.0.1:{port}") as client:
        try:
            client.send(key, 8, request)
            client.receive(key, 8)
        except (OSError, EOFError, AssertionError):
            return False
        return True


def test_a_cluster_with_passwords_comes_up_without_any_other_setting(tmp_path: Path) -> None:
    port = _base_port()
    with cluster(tmp_path, port, "listener.security.protocol=SASL_PLAINTEXT", f"bootstrap.port={port + 20}") as printed:
        users = tmp_path / "data" / "credentials"
        assert str(users) in printed
        name, password = users.read_text().strip().split(":")
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port + 20}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": name,
            "sasl.password": password,
        }
        writes_and_reads(settings)
        for number in range(2):
            ports = (port + number, port + INTER_BROKER_OFFSET + number, port + 20)
            for one in ports:
                assert not is_answered(one, ApiKey.METADATA, MetadataRequest([]))
                assert not is_answered(one, ApiKey.PRODUCE, ProduceRequest(acks=1, timeout_ms=1, topic_data=[]))
            url = f"http://127.0.0.1:{port + 10 + number}/consume?topic=orders&partition=0"
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(url, timeout=IN_TIME_S)
            allowed = urllib.request.Request(url)
            allowed.add_header("Authorization", "Basic " + b64encode(f"{name}:{password}".encode()).decode())
            with urllib.request.urlopen(allowed, timeout=IN_TIME_S) as answer:
                assert b"aGVsbG8" in (content := answer.read()) or b"hello" in content


def writes_and_reads(settings: dict[str, Any]) -> None:
    """Over two replicas, so that brokers fetch from each other before a record is acknowledged."""
    admin = AdminClient(settings)
    (made,) = admin.create_topics([NewTopic("orders", 1, 2)]).values()
    made.result(IN_TIME_S)
    known = admin.list_topics("orders", IN_TIME_S)
    assert len({one.port for one in known.brokers.values()}) == 2
    producer = Producer({**settings, "acks": "all"})
    producer.produce("orders", b"hello", partition=0)
    assert producer.flush(IN_TIME_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(IN_TIME_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"


def test_a_cluster_with_certificates_and_several_listeners_comes_up(tmp_path: Path) -> None:
    authority, port = Authority(tmp_path), _base_port()
    broker = authority.client("broker", "CN=broker")
    with cluster(
        tmp_path,
        port,
        f"listeners=CLIENTS://127.0.0.1:{port},OPEN://127.0.0.1:{port + 5},BROKERS://127.0.0.1:{port + 30}",
        "listener.security.protocol.map=CLIENTS:SSL,OPEN:PLAINTEXT,BROKERS:SSL",
        "inter.broker.listener.name=BROKERS",
        f"ssl.keystore.location={broker.both}",
        f"ssl.truststore.location={authority.trusted}",
        "ssl.client.auth=required",
        "listener.name.http.ssl.client.auth=none",
    ):
        writes_and_reads(
            {
                "bootstrap.servers": f"127.0.0.1:{port + 1}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(authority.trusted),
                "ssl.certificate.location": str(broker.chain),
                "ssl.key.location": str(broker.key),
            }
        )
        with RawClient(f"127.0.0.1:{port + 6}") as client:
            known = client.ask(ApiKey.METADATA, 8, MetadataRequest([]))
            assert {one.port for one in known.brokers} == {port + 5, port + 6}
        assert not is_answered(port + 31, ApiKey.METADATA, MetadataRequest([]))


def test_every_broker_has_every_listener_on_its_own_port() -> None:
    settings = ["listeners=A://127.0.0.1:9092,B://[::1]:9192", "advertised.listeners=A://host:5000"]
    plan = plan_cluster("data", 2, 1, None, settings)

    assert [(one.port, one.inter_broker_port) for one in plan.brokers] == [(9092, 19092), (9093, 19093)]
    own = plan.settings_of(plan.brokers[1])
    assert (own["listeners"], own["advertised.listeners"]) == ("A://127.0.0.1:9093,B://[::1]:9193", "A://host:5001")
    assert "--port" not in plan.command(plan.brokers[1])
    with pytest.raises(InvalidSettingError, match="brokers 0 and 1 would both have port 9093"):
        plan_cluster("data", 2, 1, None, ["listeners=A://127.0.0.1:9092,B://127.0.0.1:9093"])


def test_workers_have_listeners_and_advertised_ports_of_their_own_wherever_they_are_set(tmp_path: Path) -> None:
    file = tmp_path / "qanat.yml"
    file.write_text(
        "listeners: A://127.0.0.1:9092,B://127.0.0.1:9192\nlistener.security.protocol.map: A:PLAINTEXT,B:PLAINTEXT\n"
        "inter.broker.listener.name: B\n"
    )
    flags = StartFlags(config=file)
    settings = workers_settings(flags, load(flags.values(), file, {}).settings)
    plan = plan_cluster("data", 3, 1, None, settings)
    own = plan.settings_of(plan.brokers[2])
    assert (own["listeners"], own["inter.broker.listener.name"]) == ("A://127.0.0.1:9094,B://127.0.0.1:9194", "B")
    assert "inter.broker.port" not in own
    assert [one.inter_broker_port for one in plan.brokers] == [9192, 9193, 9194]

    file.write_text("advertised.listeners: PLAINTEXT://queue.example:5000\n")
    settings = workers_settings(flags, load(flags.values(), file, {}).settings)
    plan = plan_cluster("data", 2, 9092, None, settings)
    assert [plan.settings_of(one)["advertised.port"] for one in plan.brokers] == ["5000", "5001"]


def test_drawn_secrets_are_kept_and_private(tmp_path: Path) -> None:
    plan = plan_cluster(str(tmp_path / "data"), 1, 1, None, ["listener.security.protocol=SASL_PLAINTEXT"])
    drawn = with_secrets(plan)

    files = [Path(one.split("=")[1]) for one in drawn.settings[1:]]
    assert [one.name for one in files] == ["inter-broker.credentials", "credentials"]
    assert [one.stat().st_mode & 0o777 for one in files] == [0o600, 0o600]
    before = [one.read_text() for one in files]
    assert with_secrets(plan) == drawn
    assert [one.read_text() for one in files] == before
    assert with_secrets(plan_cluster(str(tmp_path / "other"), 1, 1, None)).settings == ()
    assert not (tmp_path / "other").exists()
