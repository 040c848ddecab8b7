"""Damage on the disk is seen from outside: in metrics and in /health."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.servers.metrics.test_metrics import produce, scrape

from qanat.testing import EmbeddedBroker

SETTINGS = {"metrics.port": 0, "http.port": 0}


def health(broker: EmbeddedBroker) -> dict[str, Any]:
    http = broker.node.http
    assert http is not None
    with urllib.request.urlopen(f"{http.address}/health", timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def read_first(broker: EmbeddedBroker, number: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "socket.timeout.ms": 5000})
    consumer.assign([TopicPartition("orders", number, 0)])
    consumer.poll(3.0)
    consumer.close()


def test_damaged_records_are_counted_and_make_the_node_degraded(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS) as broker:
        produce(broker, "orders", 1)
        before = scrape(broker)
        assert [before[name,] for name in ("qanat_log_partitions_damaged", "qanat_elections_waiting")] == [0, 0]
        assert before["qanat_replicas_repaired_total",] == 0
        assert health(broker)["status"] == "HEALTHY"
    log = max(tmp_path.rglob("orders-*/*.log"), key=lambda path: path.stat().st_size)
    number = int(log.parent.name.rpartition("-")[2])
    data = bytearray(log.read_bytes())
    data[8:17] = b"\xff" * 9  # Its length, leader epoch and format.
    log.write_bytes(data)
    with EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS) as broker:
        read_first(broker, number)
        assert scrape(broker)["qanat_log_partitions_damaged",] == 1
        found = health(broker)
        assert (found["status"], found["ready"]) == ("DEGRADED", True)
        [degraded] = found["degraded"]
        assert (degraded["partition"], degraded["problem"]) == (number, "broker 0: offsets 0 damaged")
