"""Three brokers whose etcd is away for a minute: clients continue, nothing is lost, and no broker is restarted.

`QANAT_STORE_OUTAGE_S` says for how long; `make stores` takes 60 seconds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.adapters.etcd_servers import etcd_members
from tools.brokers import TIMEOUT_S, BrokerProcesses
from tools.clients import SteadyWriter, read_all

pytestmark = [pytest.mark.long, pytest.mark.data]

OUTAGE_S = float(os.environ.get("QANAT_STORE_OUTAGE_S", "20"))


class _Reader:
    """A member of a group that reads and commits."""

    def __init__(self, bootstrap: str) -> None:
        self.seen = 0
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "outage", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe(["orders"])

    def read_for(self, seconds: float) -> int:
        """How many records came in that time."""
        before, end = self.seen, time.monotonic() + seconds
        while time.monotonic() < end:
            self.seen += sum(one.error() is None for one in self._consumer.consume(500, 0.2))
        return self.seen - before

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def _new_producer_writes(bootstrap: str, value: bytes) -> None:
    """A producer that needs an id of its own, which the store hands out in blocks."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 60_000})
    producer.produce("others", value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(90) == 0
    assert failed == []


def test_clients_of_three_brokers_continue_while_etcd_is_away_without_a_restart(tmp_path: Path) -> None:
    with etcd_members() as (etcd,):
        settings = {"metadata.store": "etcd", "metadata.etcd.endpoints": etcd.plan.client_url}
        with BrokerProcesses(tmp_path, settings=settings) as brokers:
            brokers.create("orders", partitions=3)
            brokers.create("others")
            pids = {node_id: process.pid for node_id, process in brokers.processes.items()}
            reader = _Reader(brokers.bootstrap)
            with SteadyWriter(brokers.bootstrap, "orders") as writer:
                writer.wait_for_more()
                assert reader.read_for(10.0)
                gone = time.monotonic()
                etcd.kill()
                _new_producer_writes(brokers.bootstrap, b"began while the store was away")
                while time.monotonic() < gone + OUTAGE_S:
                    assert reader.read_for(5.0), "what is written is read"
                    reader.commit()
                away_gap_s = writer.longest_gap_s(gone)
                etcd.start()
                back = time.monotonic()
                writer.wait_for_more(200)
                brokers.until_in_sync("orders")
                brokers.create("after")
                writer.wait_for_more(200)
                back_gap_s = writer.longest_gap_s(back)
                assert reader.read_for(5.0)
            reader.close()
            assert away_gap_s < OUTAGE_S / 2, "no request waits for a store that is away"
            assert back_gap_s < 60.0
            assert writer.errors == []
            seen = read_all(brokers.bootstrap, "orders", len(writer.acknowledged))
            assert sorted(seen) == sorted(writer.values())
            assert {node_id: process.pid for node_id, process in brokers.processes.items()} == pids
            assert all(process.poll() is None for process in brokers.processes.values())

            leader = brokers.look("orders").topics["orders"].partitions[0].leader
            brokers.kill(leader)
            brokers.until(
                lambda found: found.topics["orders"].partitions[0].leader not in (-1, leader),
                "there is a controller, and it elects",
                TIMEOUT_S,
            )
