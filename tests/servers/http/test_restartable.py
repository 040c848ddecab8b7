"""`/health/restartable` of real brokers: yes while replicas are in sync, no while one is missing, apart from ready."""

from __future__ import annotations

import time
from pathlib import Path

from tests.app.processes import RunningBroker, running_broker
from tests.servers.http.test_cluster import TIMEOUT_S, call, cluster

__all__ = ["cluster"]


def _wait_for(broker: RunningBroker, status: int, **fields: int) -> dict[str, object]:
    """The answer once the broker knows of all that was done."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        code, answer = call(broker, "GET", "/health/restartable")
        if code == status and {name: answer[name] for name in fields} == fields:
            return dict(answer)
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def test_a_node_may_not_restart_while_another_one_is_down(cluster: list[RunningBroker]) -> None:
    wish = {"name": "orders", "partitions": 2, "replication_factor": 3, "configs": {"min.insync.replicas": "2"}}
    assert call(cluster[0], "POST", "/api/v1/topics", wish)[0] == 201
    wish = {"name": "alone", "partitions": 3, "replication_factor": 1}
    assert call(cluster[0], "POST", "/api/v1/topics", wish)[0] == 201
    answers = [_wait_for(broker, 200, interrupted_count=1) for broker in cluster]
    assert all(one["restartable"] and one["blocking"] == [] for one in answers)

    cluster[2].process.kill()
    for survivor in cluster[:2]:
        refused = _wait_for(survivor, 503, blocking_count=2)
        assert refused["reason"] == "2 partitions would stop taking writes: wait until their replicas have caught up"
        assert {
            "topic": "orders",
            "partition": 0,
            "problem": "1 replicas in sync without this node, 2 are needed",
        } in list(refused["blocking"])  # type: ignore[call-overload]
        assert call(survivor, "GET", "/health/ready")[0] == 200
    # Where the killed node led, another one leads a moment later, and counts the partition.
    deadline = time.monotonic() + 30
    while sum(_spare(survivor) for survivor in cluster[:2]) != 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _spare(broker: RunningBroker) -> int:
    import urllib.request

    with urllib.request.urlopen(f"{broker.started['http']}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return int(float(next(one for one in lines if one.startswith("qanat_partitions_without_spare ")).split()[1]))


def test_a_single_broker_may_restart_at_any_time(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", "-X", "http.port=0") as broker:
        assert call(broker, "POST", "/api/v1/topics", {"name": "orders", "partitions": 2})[0] == 201
        answer = _wait_for(broker, 200)
        assert (answer["restartable"], answer["interrupted_count"]) == (True, 2)
