"""Counters of a consumer application, and its metrics as Prometheus' text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from qanat.servers.metrics.process import cpu_seconds, open_descriptors, resident_bytes, start_time_seconds
from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.histogram import SECONDS, Histogram


class PartitionStatus(NamedTuple):
    """A partition as it is served."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    leader_epoch: int
    generation: int
    records: int


@dataclass(slots=True)
class Counters:
    """What an application has done since its start."""

    stored: int = 0
    duplicates: int = 0
    batches: int = 0
    store_s: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    store_faults: int = 0
    reconnections: int = 0
    resets: int = 0
    refreshes: int = 0
    index_rebuilds: int = 0
    answered: dict[int, int] = field(default_factory=dict)
    transfers: int = 0


class Observed(NamedTuple):
    """What the metrics are read from."""

    counters: Counters
    partitions: list[PartitionStatus]
    is_connected: bool
    is_refreshing: bool
    unindexed: int


def _single(
    name: str, kind: Kind, meaning: str, read: Callable[[Observed], float | Histogram | None]
) -> Family[Observed]:
    def collect(observed: Observed) -> Iterator[Sample]:
        value = read(observed)
        if value is not None:
            yield Sample({}, value)

    return Family(name, kind, meaning, (), collect)


def _of_partitions(name: str, meaning: str, read: Callable[[PartitionStatus], float]) -> Family[Observed]:
    def collect(observed: Observed) -> Iterable[Sample]:
        return [Sample({"topic": o.topic, "partition": str(o.partition)}, read(o)) for o in observed.partitions]

    return Family(name, "gauge", meaning, ("topic", "partition"), collect)


FAMILIES: tuple[Family[Observed], ...] = (
    _single("qanat_consumer_records_stored_total", "counter", "Records stored.", lambda o: o.counters.stored),
    _single(
        "qanat_consumer_records_duplicate_total",
        "counter",
        "Records that came again and were not stored.",
        lambda o: o.counters.duplicates,
    ),
    _single(
        "qanat_consumer_batches_total", "counter", "Batches made durable, each at once.", lambda o: o.counters.batches
    ),
    _single("qanat_consumer_store_seconds", "histogram", "Time to make a batch durable.", lambda o: o.counters.store_s),
    _single(
        "qanat_consumer_store_faults_total",
        "counter",
        "Batches that could not be stored at the first attempt, as on a full disk.",
        lambda o: o.counters.store_faults,
    ),
    _single("qanat_consumer_connected", "gauge", "1 where the application receives.", lambda o: float(o.is_connected)),
    _single("qanat_consumer_reconnections_total", "counter", "Lost connections.", lambda o: o.counters.reconnections),
    _single("qanat_consumer_resets_total", "counter", "RESET frames obeyed.", lambda o: o.counters.resets),
    _single(
        "qanat_consumer_refreshes_total", "counter", "Refreshes that were completed.", lambda o: o.counters.refreshes
    ),
    _single(
        "qanat_consumer_refreshing", "gauge", "1 while a refresh fills a generation.", lambda o: float(o.is_refreshing)
    ),
    _of_partitions("qanat_consumer_records", "Records that are served.", lambda one: one.records),
    _of_partitions("qanat_consumer_end_offset", "The offset after the last stored record.", lambda one: one.end_offset),
    _of_partitions("qanat_consumer_generation", "The generation that is served.", lambda one: one.generation),
    _single(
        "qanat_consumer_unindexed_offsets", "gauge", "Offsets that queries do not find yet.", lambda o: o.unindexed
    ),
    _single(
        "qanat_consumer_index_rebuilds_total",
        "counter",
        "Times that the index was damaged and made again.",
        lambda o: o.counters.index_rebuilds,
    ),
    Family(
        "qanat_consumer_http_requests_total",
        "counter",
        "Answered HTTP requests.",
        ("status",),
        lambda o: [Sample({"status": str(status)}, count) for status, count in sorted(o.counters.answered.items())],
    ),
    _single("qanat_consumer_transfers_total", "counter", "Databases that were sent.", lambda o: o.counters.transfers),
    _single("process_cpu_seconds_total", "counter", "CPU time, all threads.", lambda o: cpu_seconds()),
    _single("process_resident_memory_bytes", "gauge", "Resident memory.", lambda o: resident_bytes()),
    _single("process_open_fds", "gauge", "Open file descriptors.", lambda o: open_descriptors()),
    _single(
        "process_start_time_seconds",
        "gauge",
        "When the process started, in seconds since 1970.",
        lambda o: start_time_seconds(),
    ),
)


def exposition(observed: Observed) -> str:
    return "".join(line for family in FAMILIES for line in family.lines(observed))
