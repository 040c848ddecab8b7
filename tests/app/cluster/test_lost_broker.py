"""A broker is lost for good: its partitions are listed, changed, deleted and moved to other brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.brokers import BrokerProcesses

pytestmark = pytest.mark.long


def test_topics_without_a_leader_are_described_changed_and_deleted_and_the_lost_broker_is_drained(
    tmp_path: Path,
) -> None:
    with BrokerProcesses(tmp_path, 4) as brokers:
        brokers.create("orders", 4)
        brokers.create("alone", 4, 1)
        lost = brokers.look().topics["alone"].partitions[0].leader
        brokers.kill(lost)
        brokers.until(lambda seen: lost not in seen.brokers, "the broker is missed")

        status = json.loads(brokers.command("cluster", "status", "-o", "json").stdout)
        described = json.loads(brokers.command("topic", "describe", "alone", "-o", "json").stdout)
        stuck = brokers.command("cluster", "drain", str(lost))
        changed = brokers.command("config", "set", "topic", "alone", "retention.ms=1000")
        deleted = brokers.command("topic", "delete", "alone", "--yes")
        drained = brokers.command("cluster", "drain", str(lost))
        after = brokers.command("cluster", "status")

    assert (status["missing_brokers"], status["offline"]) == ([lost], 1)
    assert [(row["leader"] is None, row["records"]) for row in described].count((True, None)) == 1
    assert " has no leader to copy it from" in stuck.stderr
    assert (stuck.returncode, changed.returncode, deleted.returncode, drained.returncode) == (1, 0, 0, 0)
    assert after.returncode == 0, after.stdout
