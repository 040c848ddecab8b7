"""The metrics of a real broker after real clients have used it."""

from __future__ import annotations

import http.client
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families

from qanat.app.metrics_page import renewed
from qanat.model.errors import AddressInUseError
from qanat.servers.metrics.families import FAMILIES
from qanat.testing import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "operating" / "metrics.md"

Samples = dict[tuple[str, ...], float]


def scrape(broker: EmbeddedBroker) -> Samples:
    """Every sample, by its name and its labels' values."""
    with urllib.request.urlopen(address(broker), timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def address(broker: EmbeddedBroker) -> str:
    metrics = broker.node.metrics
    assert metrics is not None
    return metrics.address


def place(broker: EmbeddedBroker) -> str:
    """Host and port."""
    return address(broker).removeprefix("http://").removesuffix("/metrics")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"metrics.port": 0}) as broker:
        yield broker


def produce(broker: EmbeddedBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"v%d" % number)
    assert producer.flush(30) == 0


def test_produce_and_consume_are_counted(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", partitions=2)
    produce(broker, "orders", 10)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < 10:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read += 1
    consumer.commit(asynchronous=False)

    found = scrape(broker)
    consumer.close()

    assert found["qanat_requests_total", "Produce"] >= 1
    assert found["qanat_request_duration_seconds_count", "Produce"] == found["qanat_requests_total", "Produce"]
    assert found["qanat_request_loop_seconds_total", "Produce"] > 0
    assert found["qanat_request_bytes_total", "Produce"] > 100
    assert found["qanat_response_bytes_total", "Fetch"] > 100
    assert found["qanat_log_end_offset", "orders"] == 10
    assert found["qanat_log_high_watermark", "orders"] == 10
    assert found["qanat_log_start_offset", "orders"] == 0
    assert found["qanat_log_size_bytes", "orders"] > 10 * 61 / 10
    assert found["qanat_groups", "Stable"] == 1
    assert found["qanat_groups", "Reconciling"] == 0
    assert found["qanat_group_members",] == 1
    assert found["qanat_group_offsets",] >= 1
    assert found["qanat_group_generations_total",] >= 1
    assert found["qanat_connections",] >= 1
    assert found["qanat_log_flush_seconds_count",] >= 1
    assert found["qanat_log_flush_acknowledged_count",] >= 1
    assert found["qanat_topics_created_total",] == 2
    assert found["process_cpu_seconds_total",] > 0
    assert found["process_resident_memory_bytes",] > 1_000_000
    assert found["process_open_fds",] > 3


def test_a_waiting_fetch_is_parked_and_then_not(broker: EmbeddedBroker) -> None:
    broker.create_topic("quiet")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "fetch.wait.max.ms": 20_000})
    consumer.assign([TopicPartition("quiet", 0, 0)])
    while scrape(broker).get(("qanat_requests_parked", "Fetch"), 0) < 1:
        consumer.poll(0.05)
    produce(broker, "quiet", 1)
    assert consumer.poll(30) is not None
    consumer.close()
    while scrape(broker)["qanat_requests_parked", "Fetch"] > 0:
        pass


def test_errors_are_counted_by_their_code(broker: EmbeddedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for outcome in admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "nowhere")]).values():
        assert outcome.exception(30) is not None

    assert scrape(broker)["qanat_request_errors_total", "DescribeConfigs", "UNKNOWN_TOPIC_OR_PARTITION"] == 1


def test_cut_off_connections_are_counted(broker: EmbeddedBroker) -> None:
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 20) as attacker:
        attacker.sendall(b"\xff" * 8)
        assert attacker.recv(1) == b""

    assert scrape(broker)["qanat_connections_cut_off_total",] == 1


def test_c37_open_and_late_transactions_are_counted(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("orders", b"v", partition=partition)
    assert producer.flush(30) == 0
    open_ = scrape(broker)
    logs = [one.log for one in broker.node.broker.partitions.values() if one.log.topic_partition.topic == "orders"]
    # As if its last write were older than any transaction may take, and 15 seconds.
    timeout_ms = broker.node.broker.current_settings.transactions.transaction_max_timeout_ms
    (state,) = logs[0].producers.states.values()
    state.last_used_ms -= timeout_ms + 16_000
    late = scrape(broker)
    producer.commit_transaction(30)

    assert (open_["qanat_transactions_open",], open_["qanat_partitions_with_late_transactions",]) == (2, 0)
    assert (late["qanat_transactions_open",], late["qanat_partitions_with_late_transactions",]) == (2, 1)
    deadline = time.monotonic() + 30
    while (over := scrape(broker))["qanat_transactions_open",] > 0:
        assert time.monotonic() < deadline
    assert over["qanat_partitions_with_late_transactions",] == 0


def test_partitions_have_samples_of_their_own_on_request() -> None:
    with EmbeddedBroker(settings={"metrics.port": 0, "metrics.per.partition": True}) as broker:
        broker.create_topic("orders", partitions=3)
        found = scrape(broker)

    assert [key for key in found if key[0] == "qanat_log_end_offset"] == [
        ("qanat_log_end_offset", "orders", str(number)) for number in range(3)
    ]


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405), ("/metrics?x=1", "HEAD", 200)]
)
def test_only_metrics_are_served(broker: EmbeddedBroker, path: str, method: str, status: int) -> None:
    connection = http.client.HTTPConnection(place(broker), timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()

    assert answer.status == status
    assert bool(answer.read()) == (method != "HEAD")
    connection.close()


@pytest.mark.parametrize("sent", [b"\r\n\r\n", b"nonsense\r\n\r\n", b"G" * 20_000, b"GET /metrics"])
def test_a_client_that_does_not_speak_http_is_closed(broker: EmbeddedBroker, sent: bytes) -> None:
    host, _, port = place(broker).rpartition(":")
    with socket.create_connection((host, int(port)), 20) as attacker:
        attacker.sendall(sent)
        attacker.shutdown(socket.SHUT_WR)
        try:
            while attacker.recv(4096):
                pass
        except ConnectionResetError:
            pass

    assert scrape(broker)


def test_nothing_is_served_unless_asked_for() -> None:
    with EmbeddedBroker() as broker:
        assert broker.node.metrics is None


def test_a_taken_address_is_reported_in_one_sentence(broker: EmbeddedBroker) -> None:
    port = re.findall(r":(\d+)/", address(broker))[0]

    with (
        pytest.raises(AddressInUseError, match=rf"cannot serve metrics on 127\.0\.0\.1:{port}: .*metrics\.port"),
        EmbeddedBroker(settings={"metrics.port": int(port)}),
    ):
        pass


def test_the_page_lists_every_metric() -> None:
    assert PAGE.read_text() == renewed(PAGE.read_text()), "run python -m qanat.app.metrics_page"


def test_metrics_are_named_as_prometheus_wants_them() -> None:
    names = [family.name for family in FAMILIES]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"(qanat|process)_[a-z_]+", name)] == []
    assert [one.name for one in FAMILIES if (one.kind == "counter") != one.name.endswith("_total")] == []
