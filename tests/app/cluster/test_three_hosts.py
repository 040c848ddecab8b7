"""Real brokers with three addresses: topics and internal topics are replicated without a word in any setting."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]
from tests.app.processes import TIMEOUT_SECONDS, RunningBroker, running_broker
from tests.app.start.test_start import free_port

OFFSETS = "__consumer_offsets"
SETTINGS = ("offsets.topic.num.partitions=2", "leader.imbalance.check.interval.seconds=1")


def _start(running: contextlib.ExitStack, folder: Path, number: int) -> RunningBroker:
    own = folder / str(number)
    own.mkdir()
    settings = [*SETTINGS, f"inter.broker.port={free_port()}"]
    flags = [part for one in settings for part in ("-X", one)]
    place = ("--host", f"127.0.0.{number + 1}", "--port", "0", "--node-id", str(number))
    return running.enter_context(running_broker(own, *place, "--data-dir", str(folder / "data"), *flags))


def _min_in_sync(admin: AdminClient, topic: str) -> str:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result()["min.insync.replicas"].value)


def _replicas(admin: AdminClient, topic: str) -> list[int]:
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
    return [len(one.isrs) for one in partitions]


def test_topics_get_three_replicas_and_need_two_as_soon_as_there_are_three_hosts(tmp_path: Path) -> None:
    with contextlib.ExitStack() as running:
        first = _start(running, tmp_path, 0)
        admin = AdminClient({"bootstrap.servers": first.address})
        admin.create_topics([NewTopic("alone", num_partitions=1)])["alone"].result()
        Producer({"bootstrap.servers": first.address}).produce("alone", b"x")
        reader = Consumer({"bootstrap.servers": first.address, "group.id": "readers"})
        reader.commit(offsets=[TopicPartition("alone", 0, 0)], asynchronous=False)
        reader.close()
        assert (_replicas(admin, "alone"), _min_in_sync(admin, "alone")) == ([1], "1")
        assert _min_in_sync(admin, OFFSETS) == "1"

        for number in (1, 2):
            _start(running, tmp_path, number)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while _min_in_sync(admin, OFFSETS) != "2":
            assert time.monotonic() < deadline, _replicas(admin, OFFSETS)
            time.sleep(0.2)
        assert _replicas(admin, OFFSETS) == [3, 3]

        admin.create_topics([NewTopic("orders", num_partitions=2)])["orders"].result()
        assert _min_in_sync(admin, "orders") == "2"
        told = NewTopic("told", num_partitions=1, config={"min.insync.replicas": "1"})
        admin.create_topics([told])["told"].result()
        assert _min_in_sync(admin, "told") == "1"
        assert _min_in_sync(admin, "alone") == "1", "what is there stays"
        while _replicas(admin, "orders") != [3, 3]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
