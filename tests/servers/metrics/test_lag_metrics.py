"""The lag of groups in the metrics of a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.servers.metrics.test_metrics import Samples, produce, scrape

from qanat.testing import EmbeddedBroker

RECORDS, SECONDS, STATE = "qanat_group_lag_records", "qanat_group_lag_seconds", "qanat_group_lag_state"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"metrics.port": 0, "group.lag.interval.ms": 50}) as broker:
        yield broker


def commit(broker: EmbeddedBroker, group: str, topic: str, offset: int, partition: int = 0) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def scrape_until(broker: EmbeddedBroker, is_there: Callable[[Samples], bool]) -> Samples:
    """Scrape until the collector has passed; a test that hangs here has failed."""
    found = scrape(broker)
    while not is_there(found):
        found = scrape(broker)
    return found


def test_lag_grows_with_records_and_falls_with_commits(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", partitions=1)
    produce(broker, "orders", 10)
    commit(broker, "readers", "orders", 3)

    first = scrape_until(broker, lambda found: found.get((RECORDS, "readers", "orders")) == 7)
    produce(broker, "orders", 5)
    grown = scrape_until(broker, lambda found: found.get((RECORDS, "readers", "orders")) == 12)
    commit(broker, "readers", "orders", 15)
    caught_up = scrape_until(broker, lambda found: found.get((RECORDS, "readers", "orders")) == 0)

    assert first[SECONDS, "readers", "orders"] >= 0
    assert grown[SECONDS, "readers", "orders"] > first[SECONDS, "readers", "orders"]
    assert caught_up[SECONDS, "readers", "orders"] == 0
    assert caught_up[STATE, "readers"] == 0


def test_lag_is_reported_by_partition_where_that_is_asked_for() -> None:
    settings = {"metrics.port": 0, "group.lag.interval.ms": 50, "metrics.per.partition": True}
    with EmbeddedBroker(settings=settings) as broker:
        broker.create_topic("orders", partitions=2)
        commit(broker, "readers", "orders", 0, partition=1)
        found = scrape_until(broker, lambda found: (RECORDS, "readers", "orders", "1") in found)

    assert found[RECORDS, "readers", "orders", "1"] == 0
    assert (RECORDS, "readers", "orders", "0") not in found


def test_an_interval_of_nothing_collects_nothing() -> None:
    with EmbeddedBroker(settings={"metrics.port": 0, "group.lag.interval.ms": 0}) as broker:
        broker.create_topic("orders", partitions=1)
        commit(broker, "readers", "orders", 0)
        scrape(broker)
        found = scrape(broker)

        assert broker.node.broker.group_lag.report() is None
        assert not any(sample[0] == RECORDS for sample in found)


def test_a_deleted_topic_has_no_lag_any_more(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", partitions=1)
    commit(broker, "leaving", "orders", 0)
    scrape_until(broker, lambda found: (RECORDS, "leaving", "orders") in found)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["orders"])["orders"].result(30)

    scrape_until(broker, lambda found: (RECORDS, "leaving", "orders") not in found)


def test_the_process_and_the_disk_are_described(broker: EmbeddedBroker) -> None:
    found = scrape(broker)

    assert found["process_max_fds",] >= found["process_open_fds",]
    assert found["process_start_time_seconds",] > 0
    assert found["qanat_partitions_leaderless",] == 0
    assert found["qanat_partitions_below_min_in_sync",] == 0
    assert found["qanat_follower_lag_records",] == 0
