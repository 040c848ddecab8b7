"""What limits a cluster as a whole: a follower that others wait for, a partition, leaders on one broker, groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from qanat.diagnosis.broker_judgements import BUSY_LOOP, MAIN_SHARE, WAITING_MIN
from qanat.diagnosis.findings import Finding, data, milliseconds, per_second, percent
from qanat.diagnosis.readings import GroupReading
from qanat.diagnosis.time_split import TimeSplit
from qanat.diagnosis.window import BrokerWindow

SLOW_FOLLOWER_S = 0.02
HOT_SHARE = 0.5
"""Of what is written to a broker, and of what is written to the topic."""
UNBALANCED = 1.75
"""So many times its fair share of the leaders, and of the load."""
UNBALANCED_RATE = 50.0
"""Bytes written a second and partition: below, nobody works."""
LAG_S = 5.0
LAG_GROWTH = 0.3
"""Seconds of lag that a group gains in a second: it reads at less than 70 % of the speed of its producers."""
GROUPS_NAMED = 5
_SILENT = frozenset({"stalled", "stopped"})


def waited_for(windows: Sequence[BrokerWindow], splits: Mapping[int, TimeSplit]) -> dict[int, float]:
    """The followers that appends wait for alone, and how many appends do at any time."""
    found: defaultdict[int, float] = defaultdict(float)
    for window in windows:
        split = splits[window.node_id]
        appends = max(1, window.produce.requests)
        if split.share("replication") < MAIN_SHARE or split.replication / appends < SLOW_FOLLOWER_S:
            continue
        for follower, seconds in window.behind.items():
            if seconds >= split.replication / 2:
                found[follower] += window.share(seconds)
    return {node_id: waiting for node_id, waiting in found.items() if waiting >= WAITING_MIN}


def slow_follower(
    node_id: int, waiting: float, windows: Sequence[BrokerWindow], splits: Mapping[int, TimeSplit]
) -> Finding:
    leaders = [one for one in windows if one.behind.get(node_id)]
    replication = sum(splits[one.node_id].replication for one in leaders)
    appends = max(1, sum(one.produce.requests for one in leaders))
    busy = sum(splits[one.node_id].busy for one in leaders) or 1.0
    names = ", ".join(str(one.node_id) for one in leaders)
    return Finding(
        "slow_follower",
        f"broker {node_id}",
        f"broker {node_id} replicates slowly: writes with acks=all wait for it",
        (
            f"{waiting:.1f} appends of broker {names} waited for it alone at any time",
            (
                f"waiting for followers was {percent(replication / busy)} of the time of requests there, "
                f"{milliseconds(replication / appends)} an append"
            ),
        ),
        f"look at broker {node_id}: its machine, its disk, the network to it (`qanat cluster status`, `qanat doctor` "
        "there); until it is well, `qanat cluster drain` takes it out of the way",
        10 + waiting,
        broker=node_id,
    )


def hot_partition(window: BrokerWindow, windows: Sequence[BrokerWindow]) -> Finding | None:
    """One partition that takes most of a busy broker, and whose topic could have spread it."""
    if window.demand < BUSY_LOOP or not window.partitions:
        return None
    hot = window.partitions[0]
    if hot.of < 2 or hot.bytes < HOT_SHARE * window.written_bytes:
        return None
    topic_bytes = sum(one.bytes for every in windows for one in every.partitions if one.topic == hot.topic)
    if hot.bytes < max(HOT_SHARE, min(0.9, 2 / hot.of)) * topic_bytes:
        return None
    return Finding(
        "hot_partition",
        f"{hot.topic}:{hot.partition}",
        f"one partition, {hot.topic}:{hot.partition}, takes most of what broker {window.node_id} can do",
        (
            (
                f"{percent(hot.bytes / topic_bytes)} of what is written to {hot.topic} goes to one of its {hot.of} "
                f"partitions: {data(hot.bytes / window.seconds)} a second"
            ),
            f"the event loop of broker {window.node_id} used {percent(window.loop_share)} of a core",
        ),
        "spread the records: a key with more values, or no key; a custom partitioner may send everything to one "
        "partition. More partitions alone do not help one hot key",
        9.5 + window.demand,
        broker=window.node_id,
        topic=hot.topic,
    )


def unbalanced_leaders(windows: Sequence[BrokerWindow]) -> Finding | None:
    """Most of the partitions that are written to are led by one broker."""
    count = len(windows)
    active = {one.node_id: len(one.partitions) for one in windows}
    if count < 2 or sum(active.values()) < 2 * count:
        return None
    top = max(windows, key=lambda one: (active[one.node_id], -one.node_id))
    leads, written = active[top.node_id] / sum(active.values()), sum(one.written_bytes for one in windows)
    bound = min(0.9, UNBALANCED / count)
    rate = top.written_bytes / top.seconds
    if leads < bound or top.written_bytes < bound * written or rate < UNBALANCED_RATE * active[top.node_id]:
        return None
    return Finding(
        "unbalanced_leaders",
        f"broker {top.node_id}",
        f"broker {top.node_id} leads most partitions: it works while others idle",
        (
            (
                f"it leads {active[top.node_id]} of the {sum(active.values())} partitions that are written to, on "
                f"{count} brokers"
            ),
            f"it takes {percent(top.written_bytes / written)} of what is written, {data(rate)} a second",
        ),
        "`qanat cluster elect --preferred` gives leaders back to the first replicas; `qanat cluster rebalance` moves "
        "replicas where these are uneven as well",
        6.5 + leads,
        broker=top.node_id,
    )


def lagging_groups(windows: Sequence[BrokerWindow]) -> list[Finding]:
    """Groups that fall further and further behind, the worst first."""
    found = [
        finding
        for window in windows
        for before, after in window.groups
        if (finding := _lagging(before, after, window.seconds)) is not None
    ]
    return sorted(found, key=lambda one: -one.weight)[:GROUPS_NAMED]


def _lagging(before: GroupReading, after: GroupReading, seconds: float) -> Finding | None:
    grown = after.records - before.records
    if after.seconds < LAG_S or grown <= 0 or after.seconds - before.seconds < LAG_GROWTH * seconds:
        return None
    is_silent = after.state in _SILENT
    what = {
        "stalled": "commits the same offset again and again while records come",
        "stopped": "has stopped committing while records come",
    }.get(after.state, "reads more slowly than its topics are written")
    remedy = (
        "look at its members and their logs: a record that they cannot process, a consumer that hangs, none left"
        if is_silent
        else "add consumers, up to one a partition (`qanat group describe` shows them), make the work on each record "
        "cheaper, or fetch more at once (fetch.min.bytes, max.poll.records)"
    )
    return Finding(
        "lagging_group",
        f"group {after.group}",
        f"group {after.group} {what}",
        (
            f"it is {after.records:,} records and {after.seconds:.0f} s behind ({after.state})",
            f"{per_second(grown, seconds)} records a second more",
        ),
        remedy,
        1 + min(1.0, after.seconds / 3600),
        group=after.group,
    )
