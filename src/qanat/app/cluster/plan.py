"""A local cluster on paper: broker i listens on 9092 + i, for other brokers on 19092 + i, for HTTP on 8080 + i.

They share one data directory, in which each has a folder of its own, and one metadata store.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

INTER_BROKER_OFFSET = 10_000
REPLICAS_MAX = 3
MEMORY_FILE = "cluster.json"


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker's process."""

    node_id: int
    port: int
    inter_broker_port: int
    http_port: int | None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All of them, and what they are told."""

    data_dir: str
    brokers: tuple[BrokerPlan, ...]
    settings: tuple[str, ...] = ()
    """`name=value`, for every broker."""

    def command(self, broker: BrokerPlan) -> list[str]:
        """What starts a broker."""
        replicas = min(REPLICAS_MAX, len(self.brokers))
        told = [
            f"inter.broker.port={broker.inter_broker_port}",
            f"default.replication.factor={replicas}",
            f"min.insync.replicas={min(2, replicas)}",
            *([f"http.port={broker.http_port}"] if broker.http_port is not None else []),
            *self.settings,
        ]
        return [
            *(sys.executable, "-m", "qanat.app", "start"),
            *("--port", str(broker.port), "--node-id", str(broker.node_id), "--data-dir", self.data_dir),
            *(word for one in told for word in ("-X", one)),
        ]


def plan_cluster(
    data_dir: str, brokers: int, port: int, http_port: int | None, settings: Sequence[str] = ()
) -> ClusterPlan:
    """Brokers 0 to n-1 on neighbouring ports."""
    return ClusterPlan(
        data_dir,
        tuple(
            BrokerPlan(
                number,
                port + number,
                port + INTER_BROKER_OFFSET + number,
                None if http_port is None else http_port + number,
            )
            for number in range(brokers)
        ),
        tuple(settings),
    )
