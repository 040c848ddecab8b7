"""librdkafka with `client.rack` on three real brokers: it reads from the follower in its rack."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tools.brokers import TIMEOUT_S, BrokerProcesses

pytestmark = pytest.mark.long

_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class NearbyConsumer:
    """A consumer in a rack that knows from which broker it reads."""

    def __init__(self, bootstrap: str, rack: str) -> None:
        self.broker = -1
        self.seen: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.rack": rack,
                "group.id": "near",
                "auto.offset.reset": "earliest",
                "statistics.interval.ms": 200,
                "stats_cb": self._note,
            }
        )
        self._consumer.subscribe(["orders"])

    def _note(self, statistics: str) -> None:
        partitions: dict[str, Any] = json.loads(statistics)["topics"].get("orders", {}).get("partitions", {})
        self.broker = partitions.get("0", {}).get("broker", -1)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"in vain: {what}; reads from {self.broker}, has {len(self.seen)}"
            self.seen += [one.value() or b"" for one in self._consumer.consume(100, 0.1) if one.error() is None]

    def close(self) -> None:
        self._consumer.close()


def _write(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0


def test_a_consumer_reads_from_its_rack_and_goes_on_when_that_broker_dies_and_comes_back(tmp_path: Path) -> None:
    racks = {node_id: {"broker.rack": f"rack-{node_id}"} for node_id in range(3)}
    with BrokerProcesses(tmp_path, settings={"replica.selector.class": _SELECTOR}, own=racks) as brokers:
        brokers.create("orders")
        seen = brokers.look("orders").topics["orders"].partitions[0]
        near = next(node_id for node_id in seen.replicas if node_id != seen.leader)
        _write(brokers.bootstrap, 0, 100)
        consumer = NearbyConsumer(brokers.bootstrap, f"rack-{near}")
        try:
            consumer.until(lambda: len(consumer.seen) == 100 and consumer.broker == near, "it reads from its rack")
            _write(brokers.bootstrap, 100, 100)
            consumer.until(lambda: len(consumer.seen) == 200, "it hears of what is new there")
            assert consumer.broker == near

            brokers.kill(near)
            _write(brokers.bootstrap, 200, 100)
            consumer.until(lambda: len(consumer.seen) == 300 and consumer.broker != near, "it goes on elsewhere")

            brokers.start(near)
            brokers.until_in_sync("orders")
            _write(brokers.bootstrap, 300, 100)
            consumer.until(lambda: len(consumer.seen) == 400 and consumer.broker == near, "it comes back")
        finally:
            consumer.close()
        assert consumer.seen == [b"%d" % number for number in range(400)]
