"""The plan of a local cluster: broker i listens on 9092 + i, for other brokers on 19092 + i, for HTTP on 8080 + i.

The brokers share one data directory, in which each has a folder of its own, and one metadata store.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

INTER_BROKER_OFFSET = 10_000
REPLICAS_MAX = 3
_INTERNAL_TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


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
    """All brokers, their settings and arguments."""

    data_dir: str
    brokers: tuple[BrokerPlan, ...]
    settings: tuple[str, ...] = ()
    """`name=value`, for every broker."""
    arguments: tuple[str, ...] = ()
    """Further arguments of every broker's command line."""
    is_one_host: bool = False
    """Whether the brokers count as one host, as workers do: a second replica would add no safety."""

    def command(self, broker: BrokerPlan) -> list[str]:
        """The command line of a broker."""
        replicas = 1 if self.is_one_host else min(REPLICAS_MAX, len(self.brokers))
        settings = {
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(min(2, replicas)),
            **(dict.fromkeys(_INTERNAL_TOPICS, "1") if self.is_one_host else {}),
            **dict(one.split("=", 1) for one in self.settings),
            "inter.broker.port": str(broker.inter_broker_port),
            **({"http.port": str(broker.http_port)} if broker.http_port is not None else {}),
        }
        return [
            *(sys.executable, "-m", "qanat.app", "start"),
            *("--port", str(broker.port), "--node-id", str(broker.node_id), "--data-dir", self.data_dir),
            *self.arguments,
            *(word for name, value in settings.items() for word in ("-X", f"{name}={value}")),
        ]


def plan_cluster(
    data_dir: str, brokers: int, port: int, http_port: int | None, settings: Sequence[str] = (), first_id: int = 0
) -> ClusterPlan:
    """Brokers with consecutive numbers on consecutive ports."""
    return ClusterPlan(
        data_dir,
        tuple(
            BrokerPlan(
                first_id + number,
                port + number,
                port + INTER_BROKER_OFFSET + number,
                None if http_port is None else http_port + number,
            )
            for number in range(brokers)
        ),
        tuple(settings),
    )
