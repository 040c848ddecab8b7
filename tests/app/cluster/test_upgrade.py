"""A cluster of real brokers, upgraded one by one from an earlier format level while clients use it."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.brokers import BrokerProcesses
from tools.clients import SteadyWriter, read_all

pytestmark = [pytest.mark.long, pytest.mark.data]

ROOT = Path(__file__).parents[3]
OLDER_DATA = ROOT / "tests" / "captures" / "format-level-1.tar.xz"
LAST_OF_LEVEL_1 = "c4a2cd2"
"""The last version before there were levels."""
_FEW = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


def _status(brokers: BrokerProcesses) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(brokers.command("cluster", "status", "-o", "json").stdout)
    return found


def _roll(brokers: BrokerProcesses, after_each: Callable[[int], None] = lambda _: None) -> None:
    for node_id in range(3):
        assert brokers.stop(node_id) == 0
        brokers.start(node_id)
        brokers.until(lambda seen: len(seen.brokers) == 3, f"broker {node_id} is back")
        brokers.until_in_sync("orders")
        after_each(node_id)


def _upgrade(brokers: BrokerProcesses) -> None:
    upgraded = brokers.command("cluster", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    assert "the format level is 2, and was 1" in upgraded.stdout
    assert _status(brokers)["format_level"] == 2
    assert "already" in brokers.command("cluster", "upgrade").stdout


def test_brokers_of_an_older_version_are_replaced_one_by_one_under_a_running_client(tmp_path: Path) -> None:
    older = tmp_path / "older"
    older.mkdir()
    archive = subprocess.run(
        ["git", "archive", LAST_OF_LEVEL_1, "src"], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    if archive.returncode:
        pytest.skip("the older version is not in this copy of the repository's history")
    subprocess.run(["tar", "x", "-C", str(older)], input=archive.stdout, check=True, timeout=60)
    with BrokerProcesses(tmp_path, settings=_FEW, environment={"PYTHONPATH": str(older / "src")}) as brokers:
        brokers.create("orders", partitions=3)
        with SteadyWriter(brokers.bootstrap, "orders") as writer:
            writer.wait_for_more()
            brokers.environment = {}

            def too_soon(node_id: int) -> None:
                writer.wait_for_more()
                assert _status(brokers)["format_level"] == 1
                if node_id < 2:
                    refused = brokers.command("cluster", "upgrade")
                    assert refused.returncode != 0
                    # It depends on who is controller, and whether it knows what it is asked.
                    assert "broker 2 knows 1 to 1" in refused.stderr or "not every broker runs" in refused.stderr

            _roll(brokers, too_soon)
            _upgrade(brokers)
            writer.wait_for_more()
            _roll(brokers)
            writer.wait_for_more()
        assert writer.errors == []
        seen = read_all(brokers.bootstrap, "orders", len(writer.acknowledged))
        assert sorted(seen) == sorted(writer.values()), "nothing is lost, and nothing is there twice"


def test_the_data_of_an_older_cluster_is_read_and_upgraded(tmp_path: Path) -> None:
    with tarfile.open(OLDER_DATA) as older:
        older.extractall(tmp_path)
    with BrokerProcesses(tmp_path, settings=_FEW) as brokers:
        brokers.until_in_sync("orders")
        assert _status(brokers)["format_level"] == 1
        with SteadyWriter(brokers.bootstrap, "orders") as writer:
            writer.wait_for_more()
            _upgrade(brokers)
            _roll(brokers)
            writer.wait_for_more()
        assert writer.errors == []
        old = [b"%d" % number for number in range(70)]
        different = len({*old, *writer.values()})  # The writer counts from 0 as well.
        seen = read_all(brokers.bootstrap, "orders", different, **{"group.id": "all"})
        assert sorted(seen) == sorted([*old, *writer.values()])
        group = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "readers"})
        committed = group.committed([TopicPartition("orders", number) for number in range(3)], timeout=30)
        group.close()
        assert [one.offset for one in committed] == [10, 10, 10]
        mover = Producer({"bootstrap.servers": brokers.bootstrap, "transactional.id": "mover"})
        mover.init_transactions(60)
