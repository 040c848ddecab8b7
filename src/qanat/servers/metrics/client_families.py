"""Metrics of clients that push them (KIP-714), and of the pushes themselves.

Rule: names and labels are the clients': they become texts of a label, or names of labels, within bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qanat.servers.metrics.observed import Observed, ObservedFamily, single
from qanat.telemetry.exposition import Family, Sample

_OWN = ("metric", "client_id", "client_instance_id")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_SHOWN_MAX = 10_000


def _numbers(observed: Observed) -> Iterator[Sample]:
    if not observed.broker.is_made("client_metrics"):
        return
    for at, (instance, identity, point) in enumerate(observed.broker.client_metrics.points()):
        if at >= _SHOWN_MAX:
            return
        labels = {_label(name): text for name, text in point.labels}
        own = {"metric": point.name, "client_id": identity.client_id, "client_instance_id": instance}
        yield Sample({**labels, **own}, point.value)


def _label(name: str) -> str:
    """A name that Prometheus takes, and that is none of ours."""
    made = _NOT_IN_A_NAME.sub("_", name) or "_"
    return f"client_{made}" if made in _OWN or not made[0].isalpha() else made


def _refused(observed: Observed) -> Iterator[Sample]:
    if observed.broker.is_made("client_metrics"):
        for code, count in sorted(observed.broker.client_metrics.refused.items()):
            yield Sample({"error": code.name}, count)


CLIENTS: tuple[ObservedFamily, ...] = (
    single(
        "qanat_client_metrics_clients",
        "gauge",
        "Clients that ask this broker which metrics to push, or push them (KIP-714).",
        lambda o: o.broker.client_metrics.count if o.broker.is_made("client_metrics") else 0,
    ),
    single(
        "qanat_client_metrics_pushes_total",
        "counter",
        "Pushes of metrics of clients that were kept.",
        lambda o: o.broker.client_metrics.pushes if o.broker.is_made("client_metrics") else 0,
    ),
    Family(
        "qanat_client_metrics_refused_total",
        "counter",
        "Requests about metrics of clients that were refused, by error.",
        ("error",),
        _refused,
    ),
    single(
        "qanat_client_metrics_dropped_total",
        "counter",
        "Numbers of clients that found no room.",
        lambda o: o.broker.client_metrics.dropped if o.broker.is_made("client_metrics") else 0,
    ),
    Family(
        "qanat_client_metric",
        "gauge",
        "A number that a client pushed, under the client's name for it; the client's own labels are added.",
        ("metric", "client_id", "client_instance_id"),
        _numbers,
    ),
)
