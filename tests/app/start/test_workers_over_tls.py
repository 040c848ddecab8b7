"""`qanat start --workers` with TLS: every worker advertises its own port of each listener, under one certificate."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.app.cluster.test_up import _base_port
from tests.app.secure.test_strangers import started

from qanat.app import main
from qanat.app.doctor.doctor import examine_security
from qanat.app.secure.secure_setup import ADMIN, SecureFiles, admin_password

WORKERS = 2
IN_TIME_S = 120


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureFiles, int]]:
    """Two workers with a listener for passwords and one for certificates; the first port."""
    folder, port = tmp_path_factory.mktemp("workers"), _base_port()
    data = folder / "data"
    assert main.run(["secure", "init", "--data-dir", str(data), "--port", str(port)]) == 0
    files = SecureFiles.of(str(data))
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},SSL://127.0.0.1:{port + 5}",
        "listener.name.ssl.ssl.client.auth": "required",
        "super.users": f"User:{ADMIN};User:CN=qanat-broker",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "inter.broker.credentials.file": files.credentials,
        "ssl.keystore.location": files.broker,
        "ssl.truststore.location": files.authority,
        "authorizer.class.name": "StandardAuthorizer",
        "http.port": port + 10,
        "metrics.port": port + 20,
    }
    words = ["start", "--workers", str(WORKERS), "--data-dir", str(data)]
    with started(folder, [*words, *(word for one in settings.items() for word in ("-X", "{}={}".format(*one)))]):
        yield files, port


def by_password(files: SecureFiles) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": ADMIN,
        "sasl.password": admin_password(files),
        "ssl.ca.location": str(files.authority),
    }


def by_certificate(files: SecureFiles) -> dict[str, Any]:
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.authority),
        "ssl.certificate.location": str(files.broker),
        "ssl.key.location": str(files.broker),
    }


@pytest.mark.parametrize(("settings_of", "offset"), [(by_password, 0), (by_certificate, 5)])
def test_a_client_of_one_worker_reaches_all_of_them_over_its_own_listener(
    workers: tuple[SecureFiles, int], settings_of: Any, offset: int
) -> None:
    files, port = workers
    settings = {**settings_of(files), "bootstrap.servers": f"127.0.0.1:{port + offset + 1}"}
    topic, admin = f"orders-{offset}", AdminClient(settings)
    (made,) = admin.create_topics([NewTopic(topic, 4, 1)]).values()
    made.result(IN_TIME_S)
    known = admin.list_topics(topic, IN_TIME_S)
    assert {one.port for one in known.brokers.values()} == {port + offset, port + offset + 1}
    assert len({one.leader for one in known.topics[topic].partitions.values()}) == WORKERS
    producer = Producer(settings)
    for partition in range(4):
        producer.produce(topic, b"hello", partition=partition)
    assert producer.flush(IN_TIME_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < 4:
        found += consumer.consume(4, IN_TIME_S)
    consumer.close()

    assert {one.partition() for one in found} == {0, 1, 2, 3}


def test_every_worker_has_a_port_for_metrics(workers: tuple[SecureFiles, int]) -> None:
    _, port = workers
    for number in range(WORKERS):
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 20 + number}/metrics", timeout=IN_TIME_S) as answer:
            assert b"qanat_" in answer.read()


def test_the_doctor_sees_what_the_running_workers_were_started_with(workers: tuple[SecureFiles, int]) -> None:
    files, _ = workers
    found = {one.check: one for one in examine_security(str(files.folder.parent))}

    assert found["super users"].seen == f"User:{ADMIN}, User:CN=qanat-broker"
    assert found["authentication"].status == "ok"
    assert found["certificates"].status == "ok"
