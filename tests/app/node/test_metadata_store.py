"""A broker on etcd as a process, errors of wrong settings, and the doctor's checks of stores."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.adapters.etcd_servers import etcd_members, etcd_program
from tests.app.processes import qanat, running_broker

from qanat.app.doctor import store_checks
from qanat.app.node.etcd_server import EtcdMember, find_etcd, plan_members, start_members
from qanat.app.rules import sqlite_checks
from qanat.app.settings.environment import ETCD
from qanat.app.settings.loading import assignment, load
from qanat.model.errors import InvalidSettingError, StoreUnavailableError

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdMember]:
    with etcd_members() as (member,):
        yield member


def on_etcd(member: EtcdMember, **more: str) -> dict[str, str]:
    own = {"QANAT_METADATA_STORE": "etcd", "QANAT_METADATA_ETCD_ENDPOINTS": member.plan.client_url}
    return own | {"QANAT_METADATA_ETCD_REQUEST_TIMEOUT_MS": "2000"} | more


def create(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=20)[topic].result(timeout=30)


def until(act: Callable[[], object]) -> None:
    """Repeat what the broker refuses for as long as it has no store."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            act()
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def produce(address: str, topic: str, value: bytes) -> None:
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all", "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush(30)
    assert failed == []


def consumed(address: str, topic: str, count: int) -> list[bytes]:
    """The first records of the topic's partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def test_a_broker_whose_etcd_goes_away_serves_on_and_recovers_by_itself(etcd: EtcdMember, tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", environment=on_etcd(etcd)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        create(admin, "before")
        produce(broker.address, "before", b"1")
        assert consumed(broker.address, "before", 1) == [b"1"]
        etcd.kill()
        produce(broker.address, "before", b"2")
        assert consumed(broker.address, "before", 2) == [b"1", b"2"]
        with pytest.raises(KafkaException):
            create(admin, "during")
        etcd.start()
        until(lambda: create(admin, "after"))
        produce(broker.address, "after", b"3")
        assert consumed(broker.address, "after", 1) == [b"3"]
        assert broker.stop() == 0
        assert "etcd at" in (tmp_path / "banner.txt").read_text()


def test_what_a_broker_wrote_to_etcd_is_there_at_its_next_start(etcd: EtcdMember, tmp_path: Path) -> None:
    environment = on_etcd(etcd, QANAT_METADATA_ETCD_PREFIX="next start:")
    seen = []
    for topic in ("first", "second"):
        with running_broker(tmp_path, "--port", "0", environment=environment) as broker:
            admin = AdminClient({"bootstrap.servers": broker.address})
            create(admin, topic)
            seen.append((broker.started["cluster"], sorted(admin.list_topics(timeout=20).topics)))
            assert broker.stop() == 0
    assert seen == [(seen[0][0], ["first"]), (seen[0][0], ["first", "second"])]
    assert not (tmp_path / "data" / "metadata.db").exists()
    lost = environment | {"QANAT_METADATA_ETCD_PREFIX": "another:"}
    result = qanat("start", "--port", "0", "--data-dir", str(tmp_path / "data"), **lost)
    assert result.returncode == 1
    assert "knows no cluster under the prefix 'another:'" in result.stderr


def test_an_etcd_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    environment = {
        "QANAT_METADATA_STORE": "etcd",
        "QANAT_METADATA_ETCD_ENDPOINTS": "127.0.0.1:1",
        "QANAT_METADATA_ETCD_REQUEST_TIMEOUT_MS": "500",
    }
    result = qanat("start", "--port", "0", "--data-dir", str(tmp_path / "data"), **environment)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "cannot read the metadata store, etcd at 127.0.0.1:1" in result.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["metadata.etcd.endpoints=ftp://a"], "metadata.etcd.endpoints: 'ftp://a' begins with ftp://"),
        (["metadata.etcd.endpoints= , "], "at least one endpoint"),
        (["metadata.etcd.prefix=käse"], "only printable ASCII"),
        (["metadata.etcd.tls.key.file=k.pem"], "go together"),
        (["metadata.etcd.endpoints=http://a", "metadata.etcd.tls.ca.file=c.pem"], "a:2379 is http"),
        (["metadata.etcd.request.timeout.ms=0"], "at least 1"),
    ],
)
def test_wrong_settings_of_etcd_are_refused(settings: list[str], words: str) -> None:
    with pytest.raises(InvalidSettingError, match=words):
        load([assignment("metadata.store=etcd"), *map(assignment, settings)], None, {})


def test_an_unknown_store_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="zookeeper"):
        load([assignment("metadata.store=zookeeper")], None, {})


def test_settings_of_an_etcd_that_is_not_used_are_noticed() -> None:
    loaded = load([assignment("metadata.etcd.prefix=x")], None, {})
    assert [notice for notice in loaded.notices if "metadata.store is sqlite" in notice]


def test_credentials_are_read_from_their_file(etcd: EtcdMember, tmp_path: Path) -> None:
    for content, words in (("nonsense", "name:password"), ("qanat:secret", "etcd knows no users")):
        (tmp_path / "user").write_text(content)
        environment = on_etcd(etcd, QANAT_METADATA_ETCD_CREDENTIALS_FILE=str(tmp_path / "user"))
        result = qanat("start", "--port", "0", "--data-dir", str(tmp_path / "data"), **environment)
        assert result.returncode == 1
        assert words in result.stderr


def test_a_start_without_etcd_does_not_load_its_client() -> None:
    program = "import sys, qanat.app.start.start, qanat.app.node.node; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_machine_without_etcd_gets_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(ETCD, raising=False)
    with pytest.raises(StoreUnavailableError, match="apt install etcd-server"):
        find_etcd()
    assert store_checks.check_etcd().status == "warn"
    monkeypatch.setenv(ETCD, str(tmp_path / "none"))
    with pytest.raises(StoreUnavailableError, match="not an executable program"):
        find_etcd()


def test_an_etcd_that_cannot_start_says_why(etcd: EtcdMember, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"did not start: .*see .*member-0"):
        start_members(etcd_program(), plan_members(tmp_path, 1), ["--no-such-option"])


@pytest.mark.parametrize(
    ("version", "status"), [("3.4.23", "ok"), ("3.5.1", "warn"), ("3.3.1", "warn"), ("3.7.3", "ok"), ("", "warn")]
)
def test_the_doctor_judges_the_version_of_etcd(version: str, status: str) -> None:
    assert store_checks._version_finding("etcd", version).status == status


def test_the_doctor_refuses_network_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nhost:/b {tmp_path} nfs4 rw 0 0\n")
    assert sqlite_checks.file_system_of(tmp_path / "data", mounts) == "nfs4"
    assert sqlite_checks.file_system_of(Path("/"), mounts) == "ext4"
    assert sqlite_checks.file_system_of(Path("/"), tmp_path / "none") is None
    monkeypatch.setattr(sqlite_checks, "file_system_of", lambda folder: "nfs4")
    finding = sqlite_checks.check_sqlite(tmp_path)
    assert finding.status == "fail"
    assert "local disk" in finding.advice
