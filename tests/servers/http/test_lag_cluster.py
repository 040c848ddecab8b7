"""Lag in a cluster of three: each group is reported once, by its coordinator, wherever its partitions are led."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from tests.app.processes import RunningBroker
from tests.servers.http.test_cluster import call, cluster, wait_for_three  # noqa: F401

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
GROUPS = [f"group-{number}" for number in range(12)]


def lags(brokers: list[RunningBroker]) -> list[tuple[str, float]]:
    """Group and lag of every sample of every broker."""
    found = []
    for broker in brokers:
        with urllib.request.urlopen(f"{broker.started['http']}/metrics", timeout=20) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        for family in families:
            found += [
                (one.labels["group"], one.value) for one in family.samples if one.name == "qanat_group_lag_records"
            ]
    return sorted(found)


def commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Librdkafka gives a commit up where a coordinator that was just elected does not know of it yet."""
    deadline = time.monotonic() + 30.0
    while True:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def test_each_group_of_a_cluster_is_reported_once(cluster: list[RunningBroker]) -> None:  # noqa: F811
    wait_for_three(cluster[0])
    assert call(cluster[0], "POST", "/api/v1/topics", {"name": "orders", "partitions": 6})[0] == 201
    servers = ",".join(broker.address for broker in cluster)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(60):
        producer.produce("orders", json.dumps(number).encode(), partition=number % 6)
    assert producer.flush(30) == 0
    for number, group in enumerate(GROUPS):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        commit(consumer, [TopicPartition("orders", at, min(number, 10)) for at in range(6)])
        consumer.close()

    expected = sorted((group, float(6 * (10 - min(number, 10)))) for number, group in enumerate(GROUPS))
    found = lags(cluster)
    while found != expected:
        found = lags(cluster)
