"""What metrics are read from, and the forms that most of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from qanat.api.api_table import SERVED
from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.log.partition_log import PartitionLog
from qanat.servers.kafka.listener import KafkaListener
from qanat.servers.metrics.process import LoopLag
from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.histogram import Histogram
from qanat.telemetry.http_counters import HttpCounters
from qanat.telemetry.listener_counters import ApiCounters

if TYPE_CHECKING:
    from qanat.servers.tls.listener_tls import ListenerTls


@dataclass(frozen=True, slots=True)
class Observed:
    """The sources: a broker, its servers, its event loop."""

    broker: Broker
    kafka: KafkaListener
    lag: LoopLag
    http: HttpCounters | None = None
    """None where HTTP is not served."""
    certificates: Sequence[ListenerTls] = ()
    """The TLS of every listener that has it."""

    @property
    def logs(self) -> list[PartitionLog]:
        return list(self.broker.runtime.directory.logs.values())

    @property
    def partitions(self) -> list[Partition]:
        """Those that this broker leads."""
        return list(self.broker.partitions.values())


Value = float | Histogram | None
AT_ONCE = 1000
"""Logs or partitions that are looked at before others have their turn."""
Item = TypeVar("Item")
ObservedFamily = Family[Observed]


def single(name: str, kind: Kind, meaning: str, read: Callable[[Observed], Value]) -> ObservedFamily:
    """A metric without labels; no sample where there is no value."""

    def collect(observed: Observed) -> Iterable[Sample]:
        value = read(observed)
        return () if value is None else (Sample({}, value),)

    return Family(name, kind, meaning, (), collect)


def summed(
    name: str, meaning: str, items: Callable[[Observed], list[Item]], number_of: Callable[[Item], float]
) -> ObservedFamily:
    """A sum over very many."""

    def collect(observed: Observed) -> Iterator[Sample | None]:
        total = 0.0
        for count, item in enumerate(items(observed), 1):
            total += number_of(item)
            if count % AT_ONCE == 0:
                yield None
        yield Sample({}, int(total))

    return Family(name, "gauge", meaning, (), collect)


def by_api(name: str, kind: Kind, meaning: str, read: Callable[[ApiCounters], float | Histogram]) -> ObservedFamily:
    def collect(observed: Observed) -> Iterator[Sample]:
        for key, counters in sorted(observed.kafka.counters.by_api.items()):
            if counters.requests:
                yield Sample({"api": SERVED[key].api.name}, read(counters))

    return Family(name, kind, meaning, ("api",), collect)


def by_listener(name: str, kind: Kind, meaning: str, read: Callable[[ListenerTls], float]) -> ObservedFamily:
    """A number of every listener with TLS."""

    def collect(observed: Observed) -> Iterator[Sample]:
        for tls in observed.certificates:
            yield Sample({"listener": tls.name}, read(tls))

    return Family(name, kind, meaning, ("listener",), collect)


def per_log(name: str, meaning: str, read: Callable[[PartitionLog], int]) -> ObservedFamily:
    """A number of every log, summed by topic, or by partition with `metrics.per.partition`."""

    def collect(observed: Observed) -> Iterator[Sample | None]:
        if observed.broker.settings.metrics_per_partition:
            for log in observed.logs:
                at = log.topic_partition
                yield Sample({"topic": at.topic, "partition": str(at.partition)}, read(log))
            return
        topics: dict[str, int] = {}
        for count, log in enumerate(observed.logs, 1):
            topic = log.topic_partition.topic
            topics[topic] = topics.get(topic, 0) + read(log)
            if count % AT_ONCE == 0:
                yield None
        for topic, value in topics.items():
            yield Sample({"topic": topic}, value)

    return Family(name, "gauge", meaning, ("topic", "partition"), collect)
