"""The diagnosis of a cluster: two snapshots in, the split of time and what limits out.

A cause that explains another one is named instead of it: a slow disk makes followers slow and holds clients back; tiny
batches and a hot partition fill a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from qanat.diagnosis.broker_judgements import (
    busy_machine,
    cold_reads,
    full_loop,
    slow_disk,
    slow_store,
    throttled_clients,
    tiny_batches,
)
from qanat.diagnosis.cluster_judgements import (
    hot_partition,
    lagging_groups,
    slow_follower,
    unbalanced_leaders,
    waited_for,
)
from qanat.diagnosis.findings import Finding
from qanat.diagnosis.readings import ClusterReading
from qanat.diagnosis.time_split import TimeSplit, split_of, total_of
from qanat.diagnosis.window import BrokerWindow, windows_of


class BrokerDiagnosis(Struct, frozen=True):
    """One broker in the window."""

    node_id: int
    seconds: float
    """How long it was watched."""
    requests_per_s: float
    loop_share: float
    """How much of a core its event loop used."""
    late_ms: float
    """By how much an event was late on average."""
    split: TimeSplit


class Diagnosis(Struct, frozen=True):
    """What limits a cluster."""

    seconds: float
    """The length of the window; 0 where there is none yet."""
    requests_per_s: float
    split: TimeSplit
    """Of all brokers."""
    brokers: list[BrokerDiagnosis]
    findings: list[Finding]
    """What costs most first; empty where nothing limits."""
    silent: list[int]
    """Brokers that did not answer, or not twice."""


def judge(before: ClusterReading, after: ClusterReading, brokers: Sequence[int] = ()) -> Diagnosis:
    """The diagnosis; `brokers` are those that should have answered."""
    windows = windows_of(before, after)
    splits = {one.node_id: split_of(one) for one in windows}
    seconds = max((one.seconds for one in windows), default=0.0)
    return Diagnosis(
        seconds,
        sum(one.requests / one.seconds for one in windows),
        total_of(splits.values()),
        [
            BrokerDiagnosis(
                one.node_id,
                one.seconds,
                one.requests / one.seconds,
                one.loop_share,
                one.late_s * 1000,
                splits[one.node_id],
            )
            for one in windows
        ],
        sorted(_findings(windows, splits), key=lambda one: (-one.weight, one.subject)),
        sorted({*brokers, *after} - set(splits)),
    )


def _findings(windows: Sequence[BrokerWindow], splits: Mapping[int, TimeSplit]) -> list[Finding]:
    followers = waited_for(windows, splits)
    found: list[Finding] = []
    for window in windows:
        found += _of_broker(window, splits[window.node_id], windows, is_waited_for=window.node_id in followers)
    slow = {one.subject for one in found if one.cause == "slow_disk"}
    for node_id, waiting in followers.items():
        if f"broker {node_id}" not in slow:
            found.append(slow_follower(node_id, waiting, windows, splits))
    if (unbalanced := unbalanced_leaders(windows)) is not None:
        found.append(unbalanced)
    return [*found, *lagging_groups(windows)]


def _of_broker(
    window: BrokerWindow, split: TimeSplit, windows: Sequence[BrokerWindow], *, is_waited_for: bool
) -> list[Finding]:
    disk = slow_disk(window, split, is_waited_for=is_waited_for)
    fills = [one for one in (hot_partition(window, windows), tiny_batches(window)) if one is not None]
    loop = full_loop(window) if not fills else None
    machine = busy_machine(window) if not fills and loop is None else None
    # Unanswered requests pile up in front of what is slow: then clients are held back by that.
    throttled = throttled_clients(window, split) if disk is None and loop is None else None
    rest = (disk, loop, machine, throttled, cold_reads(window, split), slow_store(window, split))
    return [*fills, *(one for one in rest if one is not None)]
