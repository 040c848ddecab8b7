"""Why is this slow, over HTTP: what the broker itself has counted, judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.diagnosis.readings import HEALTHY, START, cluster
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.cluster.store import Committed, Compare, MetadataStore, Operation, Refused
from qanat.diagnosis.readings import ClusterReading, GroupReading, PartitionReading
from qanat.security.authentication import Principal
from qanat.security.authorization import Authorizer, Resource, ResourceKind
from qanat.security.authorization import Operation as Right
from qanat.servers.listener_security import ListenerSecurity


class SlowStore:
    """A store whose commits take a while."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Committed | Refused:
        await asyncio.sleep(0.4)
        return await self._store.commit(compares, operations)


class AllBut:
    """Rules that let everyone do everything but with one resource."""

    def __init__(self, kind: ResourceKind, name: str) -> None:
        self._hidden = Resource(kind, name)

    def allows(self, principal: Principal, host: str, operation: Right, resource: Resource) -> bool:
        return resource != self._hidden


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        yield running


def apart_from_the_machine(findings: list[Any]) -> list[Any]:
    """Findings without what other tests do to this machine."""
    return [one for one in findings if one["cause"] != "busy_machine"]


def test_a_healthy_broker_has_no_finding_and_its_time_adds_up(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "orders", "partitions": 1})
    found = node.get("/api/v1/diagnosis?seconds=2").json

    assert apart_from_the_machine(found["findings"]) == []
    assert (found["silent"], [one["node_id"] for one in found["brokers"]]) == ([], [0])
    assert 1 <= found["seconds"] <= 60
    assert all(seconds >= 0 for seconds in found["split"].values())


def test_requests_of_kafka_clients_are_counted(node: ServedNode) -> None:
    assert node.node.broker.listener_load is node.node.listener


def test_a_slow_store_is_named_with_its_figures(node: ServedNode) -> None:
    metadata = node.node.broker.metadata
    node.get("/api/v1/diagnosis")
    metadata.store = SlowStore(metadata.store)
    try:
        deadline = time.monotonic() + 120
        number, findings = 0, list[Any]()
        while not findings and time.monotonic() < deadline:
            number += 1
            assert node.post("/api/v1/topics", {"name": f"slow-{number}", "partitions": 1}).status == 201
            findings = apart_from_the_machine(node.get("/api/v1/diagnosis?seconds=3").json["findings"])
    finally:
        metadata.store = metadata.store._store

    assert [(one["cause"], one["subject"]) for one in findings] == [("slow_store", "broker 0")]
    assert "a change of metadata took 4" in findings[0]["evidence"][0]


@pytest.mark.parametrize("query", ["seconds=0", "seconds=61", "seconds=soon", "minutes=1"])
def test_a_wrong_window_is_refused(node: ServedNode, query: str) -> None:
    assert node.get(f"/api/v1/diagnosis?{query}").status == 400


@contextmanager
def rules(node: ServedNode, authorizer: Authorizer) -> Iterator[None]:
    assert node.node.http is not None
    gateway = node.node.http.context.gateway
    before, gateway.security = gateway.security, ListenerSecurity(authorizer=authorizer)
    try:
        yield
    finally:
        gateway.security = before


def test_who_may_not_describe_the_cluster_gets_nothing(node: ServedNode) -> None:
    with rules(node, AllBut(ResourceKind.CLUSTER, "kafka-cluster")):
        answer = node.get("/api/v1/diagnosis")

    assert (answer.status, answer.json["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize(
    ("hidden", "named"),
    [
        (Resource(ResourceKind.TOPIC, "other"), ["hot_partition", "lagging_group"]),
        (Resource(ResourceKind.TOPIC, "orders"), ["lagging_group"]),
        (Resource(ResourceKind.GROUP, "billing"), ["hot_partition"]),
    ],
    ids=str,
)
def test_topics_and_groups_that_a_caller_may_not_describe_are_not_named(
    node: ServedNode, monkeypatch: pytest.MonkeyPatch, hidden: Resource, named: list[str]
) -> None:
    hot = [PartitionReading("orders", number, 6, 10**7 if number == 0 else 10, 100) for number in range(6)]
    late = [GroupReading("billing", "warn", 5000, 20.0)]
    before = cluster(replace(START, groups=[GroupReading("billing", "ok", 0, 0.0)]))
    after = cluster(replace(HEALTHY, loop_cpu_s=59.5, partitions=hot, groups=late))

    async def window(seconds: float) -> tuple[ClusterReading, ClusterReading]:
        return before, after

    assert node.node.http is not None
    monkeypatch.setattr(node.node.http.context.load, "window", window)
    with rules(node, AllBut(hidden.kind, hidden.name)):
        found = node.get("/api/v1/diagnosis").json

    assert [one["cause"] for one in found["findings"]] == named
