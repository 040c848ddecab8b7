"""Three brokers of Qanat or of Apache Kafka, with the same settings: short sessions and locks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tools.brokers import BrokerProcesses
from tools.kafka_cluster import kafka_cluster
from tools.kafka_jars import have_later_jars

from verify.app_fire.handlers import LOCK_S

Side = Literal["qanat", "kafka"]
SIDES: tuple[Side, ...] = ("qanat", "kafka")

_SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "4000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "6000",
    "group.share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "group.share.delivery.count.limit": "10",
}
_OF_KAFKA: Mapping[str, str] = {
    # Kafka refuses shorter values than these, whose defaults are long; Qanat has no such limits by default.
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
}


def brokers_of(side: Side, folder: Path) -> BrokerProcesses:
    """The brokers, as a context; raises `JarsUnavailableError` where Kafka's jars are missing."""
    if side == "qanat":
        return BrokerProcesses(folder, settings=_SETTINGS)
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2", **_SETTINGS, **_OF_KAFKA}
    return kafka_cluster(have_later_jars(), folder, settings, features=("share.version=1",))
