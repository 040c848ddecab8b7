"""Metrics of groups, queues and transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from qanat.groups.lag.commit_window import LagState
from qanat.groups.lag.reports import PartitionLag, TopicLag
from qanat.groups.share.group import ShareGroup
from qanat.servers.metrics.observed import AT_ONCE, Observed, ObservedFamily, single, summed
from qanat.telemetry.exposition import Family, Sample
from qanat.telemetry.share_counters import ShareCounters

_LATE_MS = 15_000
"""How long the end of a transaction may take after its timeout: ten seconds to notice, five to write the markers."""


def _groups(observed: Observed) -> Iterator[Sample]:
    """Groups of all kinds, which share some states."""
    states = Counter(group.state.value for group in _every_group(observed))
    for state in dict.fromkeys([*(one.value for one in GroupState), *(one.value for one in ConsumerGroupState)]):
        yield Sample({"state": state}, states[state])


def _every_group(observed: Observed) -> Iterator[ClassicGroup | ConsumerGroup | ShareGroup]:
    for shard in observed.broker.groups.loaded():
        yield from shard.groups.values()
        yield from shard.ledger.consumers.values()
        yield from shard.ledger.shares.values()


def _late_transactions(observed: Observed) -> Iterator[Sample | None]:
    """Partitions with a transaction open for so long that its coordinator may not know of it."""
    longest_ms = observed.broker.current_settings.transactions.transaction_max_timeout_ms + _LATE_MS
    since_ms = observed.broker.runtime.clock_ms() - longest_ms
    found = 0
    for count, log in enumerate(observed.logs, 1):
        found += log.producers.open_transactions(since_ms) > 0
        if count % AT_ONCE == 0:
            yield None
    yield Sample({}, found)


def _members(observed: Observed) -> float:
    return sum(len(group.members) for group in _every_group(observed))


def _committed(observed: Observed) -> float:
    return sum(shard.ledger.offsets.count for shard in observed.broker.groups.loaded())


def _lag(name: str, meaning: str, read: Callable[[TopicLag | PartitionLag], float]) -> ObservedFamily:
    """A number of every group and topic that this broker coordinates; by partition with `metrics.per.partition`."""

    def collect(observed: Observed) -> Iterator[Sample]:
        book = observed.broker.group_lag.book
        for lag in book.lags():
            if observed.broker.settings.metrics_per_partition:
                for row in book.partitions(lag.group):
                    labels = {"group": lag.group, "topic": row.topic, "partition": str(row.partition)}
                    yield Sample(labels, read(row))
                continue
            for topic in lag.topics:
                yield Sample({"group": lag.group, "topic": topic.topic}, read(topic))

    return Family(name, "gauge", meaning, ("group", "topic", "partition"), collect)


def _lag_states(observed: Observed) -> Iterator[Sample]:
    for lag in observed.broker.group_lag.book.lags():
        yield Sample({"group": lag.group}, LagState(lag.state).severity)


def _held(observed: Observed) -> Iterator[Sample]:
    """Records that members hold, by group; none before the first queue."""
    if not observed.broker.is_made("share_partitions"):
        return
    counts: Counter[str] = Counter()
    for led in observed.broker.share_partitions.all_led():
        counts[led.key.group_id] += led.records.held_count
    for group, count in counts.items():
        yield Sample({"group": group}, count)


def _ended(observed: Observed) -> Iterator[Sample]:
    if observed.broker.is_made("transactions"):
        counters = observed.broker.transactions.counters
        yield Sample({"outcome": "commit"}, counters.committed)
        yield Sample({"outcome": "abort"}, counters.aborted)


def _share_counters(observed: Observed) -> ShareCounters | None:
    return observed.broker.share_partitions.counters if observed.broker.is_made("share_partitions") else None


def _redelivered(observed: Observed) -> float:
    counters = _share_counters(observed)
    return 0 if counters is None else counters.redelivered


def _dead_letters(observed: Observed) -> float:
    counters = _share_counters(observed)
    return 0 if counters is None else counters.dead_letters


GROUPS: tuple[ObservedFamily, ...] = (
    Family(
        "qanat_groups",
        "gauge",
        "Groups by state, share groups included, of the coordinators that were used since the start.",
        ("state",),
        _groups,
    ),
    single("qanat_group_members", "gauge", "Members of these groups.", _members),
    single("qanat_group_offsets", "gauge", "Offsets that these groups have committed.", _committed),
    single(
        "qanat_group_generations_total",
        "counter",
        "Completed rebalances.",
        lambda o: o.broker.counters.generations,
    ),
    _lag(
        "qanat_group_lag_records",
        "Records that a group has not read, or that a queue has not finished; by its coordinator.",
        lambda lag: lag.records,
    ),
    _lag(
        "qanat_group_lag_seconds",
        "How long the first record that a group has not read has waited; by topic, the longest.",
        lambda lag: lag.seconds,
    ),
    Family(
        "qanat_group_lag_state",
        "gauge",
        "0: the group keeps up; 1: its lag does not fall, or it was reset; 2: it stalled or stopped.",
        ("group",),
        _lag_states,
    ),
    Family(
        "qanat_share_records_held",
        "gauge",
        "Records of queues that members have acquired and not finished.",
        ("group",),
        _held,
    ),
    single(
        "qanat_share_redelivered_total",
        "counter",
        "Records of queues that were delivered again.",
        _redelivered,
    ),
    single(
        "qanat_share_dead_letters_total",
        "counter",
        "Records of queues that were written as dead letters.",
        _dead_letters,
    ),
)

TRANSACTIONS: tuple[ObservedFamily, ...] = (
    summed(
        "qanat_transactions_open",
        "Open transactions, counted in every partition that they write to.",
        lambda o: o.logs,
        lambda log: log.producers.open_transactions(),
    ),
    Family(
        "qanat_partitions_with_late_transactions",
        "gauge",
        "Partitions with a transaction that should be over: its last write is older than `transaction.max.timeout.ms` "
        "and 15 s. `qanat transaction abort` ends one that hangs.",
        (),
        _late_transactions,
    ),
    Family(
        "qanat_transactions_ended_total",
        "counter",
        "Transactions that this broker's coordinator decided, by outcome.",
        ("outcome",),
        _ended,
    ),
)
