"""Log events: what an operator reads in the log of a broker that was used."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from qanat.broker.coordinators import group_events
from qanat.groups.records import GroupTombstone, OffsetTombstone
from qanat.model.errors import StorageError
from qanat.telemetry.events import FIELDS, RateLimitedEvent, log_event
from qanat.testing import EmbeddedBroker


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    return [(one.getMessage(), getattr(one, FIELDS)) for one in caplog.records if one.name == "qanat"]


def names(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [name for name, _ in lines(caplog)]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "qanat")


def test_topics_and_groups_that_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", partitions=2)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.05)
        consumer.close()
        wait_until(lambda: "group is empty" in names(caplog))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for outcome in admin.delete_topics(["orders"]).values():
            outcome.result(30)

    found = dict(lines(caplog))
    assert found["topic created"]["topic"] == "__consumer_offsets"
    assert ("topic created", {"topic": "orders", "partitions": 2, "replicas": 1}) in lines(caplog)
    assert found["group rebalanced"]["group"] == "readers"
    assert found["group rebalanced"]["members"] == 1
    assert found["group is empty"]["group"] == "readers"
    assert found["topic deleted"] == {"topic": "orders"}


def test_a_slow_request_is_told_with_who_asked(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(settings={"slow.request.ms": 1}) as broker:
        broker.delay("Metadata", 0.05)
        AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "me"}).list_topics(timeout=30)

    ((_, fields),) = [line for line in lines(caplog) if line[0] == "slow request" and line[1]["api"] == "Metadata"]
    assert fields["client"] == "me"
    assert isinstance(fields["took_ms"], int)
    assert fields["took_ms"] >= 50


def test_a_connection_too_many_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(settings={"max.connections": 1}) as broker:
        host, port = broker.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), 20), socket.create_connection((host, int(port)), 20) as second:
            assert second.recv(1) == b""

    assert ("connection refused: too many", {"limit": 1, "setting": "max.connections"}) in lines(caplog)


def test_what_strangers_can_cause_is_told_rarely(caplog: pytest.LogCaptureFixture) -> None:
    tell = RateLimitedEvent("oh", pause_s=3600)
    for _ in range(5):
        tell(peer="x")
    assert lines(caplog) == [("oh", {"peer": "x"})]

    quick = RateLimitedEvent("ah", pause_s=0)
    quick()
    quick()
    assert names(caplog) == ["oh", "ah", "ah"]


def test_a_disk_that_gave_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        state = broker.node.directory.state
        state.fail(StorageError("fsync failed"))
        state.fail(StorageError("and again"))

    (fields,) = [fields for name, fields in lines(caplog) if name.startswith("data directory failed")]
    assert fields["reason"] == "fsync failed"


def test_a_group_that_is_gone_is_told_and_offsets_are_not(caplog: pytest.LogCaptureFixture) -> None:
    assert group_events.group_changes([OffsetTombstone("g", "t", 0), GroupTombstone("g")]) == 0

    assert lines(caplog) == [("group deleted", {"group": "g"})]


def test_an_event_has_a_level(caplog: pytest.LogCaptureFixture) -> None:
    log_event("something", level="error", number=1)

    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("ERROR", "something")]
