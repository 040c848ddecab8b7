"""`qanat bench` on a real Kafka: the same commands, the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.processes import qanat
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]


def test_every_command_measures_kafka_as_well(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path)

    def bench(*arguments: str) -> dict[str, Any]:
        done = qanat("bench", *arguments, "--json", "--timeout", "50", QANAT_BOOTSTRAP_SERVERS=broker.address)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    with broker.running():
        produced = bench("produce", "--records", "5000", "--clients", "2", "--partitions", "4", "--compression", "zstd")
        transactional = bench("produce", "--records", "500", "--transactional")
        consumed = bench("consume", "--records", "5000", "--clients", "2")
        member = bench("consume", "--records", "500", "--group", "readers")
        followed = bench("end-to-end", "--records", "300", "--rate", "300")
        moved = bench("rebalance", "--members", "2", "--rounds", "1", "-X", "heartbeat.interval.ms=300")
        new = bench("rebalance", "--members", "2", "--rounds", "1", "--protocol", "consumer")
        grown = bench("partitions", "--counts", "1,20", "--seconds", "0.5")
        connected = bench("connections", "--connections", "30", "--rate", "200", "--seconds", "0.5")
        left = qanat("topic", "list", "-o", "names", QANAT_BOOTSTRAP_SERVERS=broker.address).stdout

    assert [one["records"] for one in (produced, transactional, consumed)] == [5000, 500, 5000]
    assert member["records"] >= 500
    assert produced["broker"]["resident_bytes"] > 10**8, "a JVM was found behind the port"
    assert transactional["transactions"] >= 1
    assert followed["received"] == 300
    assert len(moved["changes"]) == len(new["changes"]) == 4
    assert [row["consume"]["records"] == row["produce"]["records"] > 0 for row in grown["counts"]] == [True, True]
    assert all(part["errors"] == 0 for part in connected["parts"])
    assert "qanat-bench-" not in left
