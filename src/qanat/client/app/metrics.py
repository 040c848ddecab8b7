"""Metrics of an app's handlers, as Prometheus' text: plain slots that handlers count in, read when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.histogram import Histogram
from qanat.telemetry.producer_metrics import ProducerMetrics

_BOUNDS_S = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0)


@dataclass(slots=True)
class HandlerCounters:
    """What one handler has done."""

    handler: str
    group: str
    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    revoked: int = 0
    locks_lost: int = 0
    sent: int = 0
    commits: int = 0
    running: int = 0
    held: int = 0
    durations_s: Histogram = field(default_factory=lambda: Histogram(_BOUNDS_S))


def _family(
    name: str, kind: Kind, meaning: str, read: Callable[[HandlerCounters], float | Histogram]
) -> Family[list[HandlerCounters]]:
    def collect(source: list[HandlerCounters]) -> Iterable[Sample]:
        return [Sample({"handler": one.handler, "group": one.group}, read(one)) for one in source]

    return Family(name, kind, meaning, ("handler", "group"), collect)


FAMILIES = (
    _family("qanat_app_records_handled_total", "counter", "Records that a handler finished.", lambda one: one.handled),
    _family("qanat_app_attempts_failed_total", "counter", "Tries that raised an exception.", lambda one: one.failed),
    _family("qanat_app_retries_total", "counter", "Tries that were scheduled again.", lambda one: one.retried),
    _family(
        "qanat_app_dead_letters_total",
        "counter",
        "Records written to a dead-letter topic.",
        lambda one: one.dead_lettered,
    ),
    _family(
        "qanat_app_records_skipped_total", "counter", "Records given up without a letter.", lambda one: one.skipped
    ),
    _family(
        "qanat_app_records_revoked_total", "counter", "Handlers whose partition was revoked.", lambda one: one.revoked
    ),
    _family("qanat_app_locks_lost_total", "counter", "Queue records whose lock was lost.", lambda one: one.locks_lost),
    _family("qanat_app_records_sent_total", "counter", "Records that handlers had written.", lambda one: one.sent),
    _family("qanat_app_commits_total", "counter", "Commits of offsets.", lambda one: one.commits),
    _family("qanat_app_handlers_running", "gauge", "Records that are being handled.", lambda one: one.running),
    _family("qanat_app_records_held", "gauge", "Records received and not finished.", lambda one: one.held),
    _family("qanat_app_handler_seconds", "histogram", "How long a handler took.", lambda one: one.durations_s),
)


def _of_producers(name: str, meaning: str, read: Callable[[ProducerMetrics], int]) -> Family[list[ProducerMetrics]]:
    def collect(source: list[ProducerMetrics]) -> Iterable[Sample]:
        return [Sample({}, sum(read(one) for one in source))]

    return Family(name, "counter", meaning, (), collect)


PRODUCER_FAMILIES = (
    _of_producers("qanat_app_produced_records_total", "Records that were acknowledged.", lambda one: one.records),
    _of_producers("qanat_app_produced_bytes_total", "Bytes of their batches.", lambda one: one.batch_bytes),
    _of_producers("qanat_app_produce_requests_total", "Requests with records.", lambda one: one.requests),
    _of_producers(
        "qanat_app_produce_retries_total",
        "Batches sent again after a leader took them without an acknowledgement.",
        lambda one: one.retries,
    ),
    _of_producers(
        "qanat_app_produce_failed_records_total", "Records that were given up.", lambda one: one.failed_records
    ),
)


def exposition(counters: list[HandlerCounters], produced: list[ProducerMetrics]) -> str:
    """All families, in Prometheus' text format."""
    of_handlers = "".join(line for family in FAMILIES for line in family.lines(counters))
    return of_handlers + "".join(line for family in PRODUCER_FAMILIES for line in family.lines(produced))
