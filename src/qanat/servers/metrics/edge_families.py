"""Metrics of a node of the tree; none where a broker stands alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.edge.health import Health
from qanat.servers.metrics.observed import Observed, ObservedFamily, single
from qanat.telemetry.exposition import Kind

if TYPE_CHECKING:
    from qanat.broker.edge.edge_node import EdgeNode

_HEALTH = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.UNHEALTHY: 2}


def _of_node(name: str, kind: Kind, meaning: str, value: Callable[[EdgeNode], float]) -> ObservedFamily:
    def read(observed: Observed) -> float | None:
        node = observed.broker.edge_node
        return None if node is None else value(node)

    return single(name, kind, meaning, read)


EDGE: tuple[ObservedFamily, ...] = (
    _of_node(
        "qanat_edge_topology_version",
        "gauge",
        "Version of the topology in force; -1 before the first.",
        lambda node: -1 if node.topology is None else node.topology.version,
    ),
    _of_node(
        "qanat_edge_registry_reachable",
        "gauge",
        "1 where the registry answered the last request.",
        lambda node: float(not node.registry_fault),
    ),
    _of_node(
        "qanat_edge_pipe_health",
        "gauge",
        "The pipe to the parent: 0 healthy, 1 degraded, 2 unhealthy.",
        lambda node: _HEALTH[node.pipe.health],
    ),
    _of_node(
        "qanat_edge_pipe_lag_records",
        "gauge",
        "Records below the parent's high watermark that this broker lacks, by its last answer.",
        lambda node: node.pipe.lag_records,
    ),
    _of_node(
        "qanat_edge_pipe_lag_seconds",
        "gauge",
        "For how long this broker has lacked some of them.",
        lambda node: node.pipe.lag_ms / 1000,
    ),
    _of_node("qanat_edge_pipe_requests_total", "counter", "Requests to parents.", lambda node: node.pipe.requests),
    _of_node(
        "qanat_edge_pipe_failures_total",
        "counter",
        "Requests to parents that failed.",
        lambda node: node.pipe.failures,
    ),
    _of_node(
        "qanat_edge_pipe_received_bytes_total",
        "counter",
        "Bytes that parents answered.",
        lambda node: node.pipe.received_bytes,
    ),
    _of_node(
        "qanat_edge_parent_switches_total",
        "counter",
        "Changes from one parent to another.",
        lambda node: node.pipe.choice.switches,
    ),
    _of_node(
        "qanat_edge_mirrored_records_total",
        "counter",
        "Records appended to mirrored topics.",
        lambda node: node.mirrors.appended_records,
    ),
    _of_node(
        "qanat_edge_truncations_total",
        "counter",
        "Mirrored partitions that were cut because their parent has other records.",
        lambda node: node.mirrors.truncations,
    ),
    _of_node(
        "qanat_edge_partitions_stopped",
        "gauge",
        "Mirrored partitions that wait for records that their parent does not have any more.",
        lambda node: len(node.mirrors.stopped),
    ),
    _of_node(
        "qanat_edge_gap_records",
        "gauge",
        "Records of mirrored topics that are lost here, by recorded gaps.",
        lambda node: sum(gap.end - gap.first for at in node.mirrors.partitions() for gap in node.mirrors.gaps(at)),
    ),
    _of_node(
        "qanat_edge_up_lag_records",
        "gauge",
        "Records of outboxes that the parent does not have yet, counted by offsets.",
        lambda node: node.up.lag_records,
    ),
    _of_node(
        "qanat_edge_up_stored_bytes",
        "gauge",
        "Bytes of outboxes that wait for the parent.",
        lambda node: sum(one.partition.outbox.stored_bytes for one in node.up.senders.values() if one.partition.outbox),
    ),
    _of_node(
        "qanat_edge_up_waiting",
        "gauge",
        "Partitions of outboxes whose last request failed and is repeated.",
        lambda node: node.up.waiting,
    ),
    _of_node(
        "qanat_edge_up_stopped",
        "gauge",
        "Partitions of outboxes that wait for their operator: the parent's mark does not fit.",
        lambda node: node.up.stopped,
    ),
    _of_node(
        "qanat_edge_up_refused_total",
        "counter",
        "Appends to outboxes that were refused because they are full.",
        lambda node: sum(one.partition.outbox.refused for one in node.up.senders.values() if one.partition.outbox),
    ),
    _of_node(
        "qanat_edge_up_records_total",
        "counter",
        "Records that went up.",
        lambda node: node.up.sent_records,
    ),
    _of_node("qanat_edge_up_bytes_total", "counter", "Bytes that went up.", lambda node: node.up.sent_bytes),
    _of_node("qanat_edge_up_requests_total", "counter", "Requests with records.", lambda node: node.up.requests),
    _of_node(
        "qanat_edge_up_failures_total",
        "counter",
        "Requests with records that failed.",
        lambda node: node.up.failures,
    ),
)
