"""Metrics of the handlers that a broker runs in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qanat.servers.metrics.observed import Observed, ObservedFamily
from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.handler_apps import HandlerApp, HandlerCounts


def _by_app(name: str, kind: Kind, meaning: str, read: Callable[[HandlerApp], int]) -> ObservedFamily:
    def collect(observed: Observed) -> Iterator[Sample]:
        for app in observed.broker.handler_apps:
            yield Sample({"app": app.name}, read(app))

    return Family(name, kind, meaning, ("app",), collect)


def _by_handler(name: str, meaning: str, read: Callable[[HandlerCounts], int]) -> ObservedFamily:
    def collect(observed: Observed) -> Iterator[Sample]:
        for app in observed.broker.handler_apps:
            for one in app.counts():
                yield Sample({"app": app.name, "handler": one.handler, "group": one.group}, read(one))

    return Family(name, "counter", meaning, ("app", "handler", "group"), collect)


HANDLERS: tuple[ObservedFamily, ...] = (
    _by_app("qanat_handlers_workers", "gauge", "Processes of an app of handlers.apps.", lambda one: len(one.workers)),
    _by_app(
        "qanat_handlers_workers_running",
        "gauge",
        "Of these, those that handle records and report no problem.",
        lambda one: sum(worker.state == "running" for worker in one.workers),
    ),
    _by_app(
        "qanat_handlers_restarts_total", "counter", "Processes of handlers started again.", lambda one: one.restarts
    ),
    _by_app(
        "qanat_handlers_killed_total",
        "counter",
        "Processes of handlers killed because they were silent.",
        lambda one: one.killed,
    ),
    _by_handler("qanat_handlers_records_handled_total", "Records that a handler finished.", lambda one: one.handled),
    _by_handler("qanat_handlers_attempts_failed_total", "Tries that raised an exception.", lambda one: one.failed),
    _by_handler("qanat_handlers_retries_total", "Tries that were scheduled again.", lambda one: one.retried),
    _by_handler(
        "qanat_handlers_dead_letters_total", "Records written to a dead-letter topic.", lambda one: one.dead_lettered
    ),
    _by_handler("qanat_handlers_records_skipped_total", "Records given up without a letter.", lambda one: one.skipped),
)
