"""The same commands on a real Kafka: it understands our requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.processes import qanat
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]


def test_topics_records_groups_and_settings_work_on_kafka(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path)
    at = {"QANAT_BOOTSTRAP_SERVERS": broker.address}
    with broker.running():
        created = qanat("topic", "create", "orders", "-p", "2", "-c", "retention.ms=86400000", "--timeout", "50", **at)
        produced = qanat("produce", "orders", "-k", ":", "-z", "zstd", given="a:1\nb:2\nc:3\n", **at)
        consumed = qanat("consume", "orders", "-e", "--group", "readers", "--timeout", "50", **at)
        lag = json.loads(qanat("group", "describe", "readers", "-o", "json", **at).stdout)
        reset = qanat("group", "reset", "readers", "--topic", "orders", "--to-earliest", "--yes", **at)
        altered = qanat("topic", "alter", "orders", "--delete", "retention.ms", **at)
        grown = qanat("topic", "add-partitions", "orders", "--to", "3", **at)
        trimmed = qanat("topic", "trim", "orders", "--before", "end", "--yes", "-o", "json", **at)
        deleted = qanat("topic", "delete", "orders", "--yes", **at)

    assert created.stdout == "created orders with 2 partitions\n", created.stderr
    assert (produced.returncode, sorted(consumed.stdout.split())) == (0, ["1", "2", "3"])
    assert [row["lag"] for row in lag if row["scope"] == "total"] == [0]
    assert [reset.returncode, altered.returncode, grown.returncode, deleted.returncode] == [0, 0, 0, 0]
    assert sum(row["removed_offsets"] for row in json.loads(trimmed.stdout)) == 3
