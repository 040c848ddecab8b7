"""Moves of partitions between real brokers: throttled, cancelled, by auto rebalance; nothing is lost."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tools.brokers import TIMEOUT_S, BrokerProcesses
from tools.clients import SteadyWriter, read_all

pytestmark = pytest.mark.long

_MIB = 1024 * 1024


def _fill(brokers: BrokerProcesses, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "compression.type": "none"})
    for _ in range(size // 10_000):
        producer.produce(topic, os.urandom(10_000))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def _replicas(brokers: BrokerProcesses, topic: str) -> list[list[int]]:
    partitions = brokers.look().topics[topic].partitions
    return [partitions[number].replicas for number in sorted(partitions)]


def test_a_throttled_move_takes_its_time_writers_do_not_wait_and_nothing_of_it_stays(tmp_path: Path) -> None:
    with BrokerProcesses(tmp_path, settings={"min.insync.replicas": "1"}) as brokers:
        brokers.create("orders", replicas=2)
        _fill(brokers, "orders", 48 * _MIB)
        holders = _replicas(brokers, "orders")[0]
        new = next(one for one in range(3) if one not in holders)
        with SteadyWriter(brokers.bootstrap, "orders") as writer:
            writer.wait_for_more()
            begun = time.monotonic()
            moved = brokers.command(
                "cluster", "reassign", "orders:0", "--to", f"{holders[0]},{new}", "--throttle", "4MB"
            )
            assert moved.returncode == 0, moved.stderr
            took = time.monotonic() - begun
            writer.wait_for_more()
        assert took >= 48 * _MIB / (4 * _MIB) - 1.5
        assert writer.longest_gap_s(begun) < took / 2
        assert writer.errors == []
        assert sorted(_replicas(brokers, "orders")[0]) == sorted([holders[0], new])
        left = brokers.command("config", "get", "topic", "orders", "--changed", "-o", "names").stdout
        assert "throttled" not in left
        assert "unlimited" in brokers.command("cluster", "throttle").stdout


def test_a_move_is_taken_back_while_it_is_under_way(tmp_path: Path) -> None:
    with BrokerProcesses(tmp_path, settings={"min.insync.replicas": "1"}) as brokers:
        brokers.create("orders", replicas=2)
        _fill(brokers, "orders", 8 * _MIB)
        holders = _replicas(brokers, "orders")[0]
        new = next(one for one in range(3) if one not in holders)
        words = ("cluster", "reassign", "orders:0")
        begun = brokers.command(*words, "--to", f"{new}", "--throttle", "200k", "--no-wait")
        assert begun.returncode == 0, begun.stderr
        assert "the throttle stays" in begun.stderr
        assert "orders" in brokers.command("cluster", "reassign", "--list").stdout
        cancelled = brokers.command(*words, "--cancel")
        assert cancelled.returncode == 0, cancelled.stderr
        assert brokers.command("cluster", "throttle", "--off").returncode == 0
        brokers.until_in_sync("orders")
        assert sorted(_replicas(brokers, "orders")[0]) == sorted(holders)
        assert brokers.command("cluster", "reassign", "--list").stdout.strip().count("\n") == 0
        again = brokers.command(*words, "--cancel")
        assert again.returncode != 0
        assert "No partition reassignment is in progress" in again.stderr
        unknown = brokers.command(*words, "--to", "9")
        assert unknown.returncode != 0
        assert "broker 9, but no such broker is registered" in unknown.stderr


def test_a_throttle_is_set_and_lifted_as_kafkas_own_tool_does_it(tmp_path: Path) -> None:
    with BrokerProcesses(tmp_path, settings={"min.insync.replicas": "1"}) as brokers:
        brokers.create("orders", replicas=2)
        _fill(brokers, "orders", 16 * _MIB)
        holders = _replicas(brokers, "orders")[0]
        new = next(one for one in range(3) if one not in holders)
        rates = dict.fromkeys(("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "4000000")
        named = {
            "leader.replication.throttled.replicas": ",".join(f"0:{one}" for one in holders),
            "follower.replication.throttled.replicas": f"0:{new}",
        }
        _alter(brokers, AlterConfigOpType.SET, rates, named)
        begun = time.monotonic()
        moved = brokers.command("cluster", "reassign", "orders:0", "--to", f"{new},{holders[0]}")
        assert moved.returncode == 0, moved.stderr
        assert time.monotonic() - begun >= 2.5

        _alter(
            brokers, AlterConfigOpType.DELETE, {**rates, "replica.alter.log.dirs.io.max.bytes.per.second": ""}, named
        )
        assert "4000000" not in brokers.command("cluster", "throttle").stdout


def _alter(brokers: BrokerProcesses, act: AlterConfigOpType, rates: dict[str, str], named: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    resources = [(ResourceType.BROKER, str(node_id), rates) for node_id in range(3)]
    for kind, name, configs in [*resources, (ResourceType.TOPIC, "orders", named)]:
        entries = [ConfigEntry(key, value, incremental_operation=act) for key, value in configs.items()]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def test_brokers_that_join_get_internal_topics_and_with_auto_rebalance_their_share(tmp_path: Path) -> None:
    settings = {
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "auto.partition.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "offsets.topic.num.partitions": "5",
    }
    with BrokerProcesses(tmp_path, settings=settings, first=1) as brokers:
        brokers.create("orders", partitions=9, replicas=1)
        with SteadyWriter(brokers.bootstrap, "orders") as writer:
            writer.wait_for_more()
            first = read_all(brokers.address(0), "orders", len(writer.acknowledged))
            assert _replicas(brokers, "__consumer_offsets") == [[0]] * 5
            brokers.start(1)
            brokers.start(2)
            brokers.until(lambda seen: len(seen.brokers) == 3, "both have joined")
            brokers.until(
                lambda seen: all(len(one.isrs) == 3 for one in seen.topics["__consumer_offsets"].partitions.values()),
                "offsets have three replicas",
            )
            brokers.until(
                lambda seen: (
                    sorted(Counter(one.leader for one in seen.topics["orders"].partitions.values()).values())
                    == [3, 3, 3]
                ),
                "every broker has its share",
            )
            brokers.until(
                lambda seen: all(len(one.replicas) == 1 for one in seen.topics["orders"].partitions.values()),
                "no broker holds a replica that moved away",
            )
            writer.wait_for_more()
        assert writer.errors == []
        assert first
        assert set(read_all(brokers.bootstrap, "orders", len(writer.acknowledged), **{"group.id": "others"})) >= set(
            writer.values()
        )
