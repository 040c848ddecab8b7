"""Metrics of replicas, leaders and the controller."""

from __future__ import annotations

from collections.abc import Iterator

from qanat.broker.replicas.partition import Partition
from qanat.cluster.values import NO_LEADER
from qanat.servers.metrics.observed import AT_ONCE, Observed, ObservedFamily, single, summed
from qanat.servers.metrics.spare_replicas import lacks_spare
from qanat.telemetry.exposition import Family, Sample


def _leaderless(observed: Observed) -> int:
    """Partitions of the cluster that nobody leads; counted by the controller alone."""
    if not observed.broker.controller_loop.is_controller:
        return 0
    image = observed.broker.metadata.image
    # A partition whose state was never written is led by its first replica.
    found = [topic_id for (topic_id, _), state in image.partition_states.items() if state.leader == NO_LEADER]
    existing = {topic.topic_id for topic in image.topics.values()} if found else set()
    return sum(topic_id in existing for topic_id in found)


def _is_under_replicated(one: Partition) -> bool:
    return one.leader is not None and len(one.leader.in_sync) < len(one.leader.replicas)


def _follower_lag(observed: Observed) -> Iterator[Sample | None]:
    """Records that the slowest follower of any partition lacks; one that has not fetched yet is left out."""
    most = 0
    for count, partition in enumerate(observed.partitions, 1):
        leader = partition.leader
        for node_id in () if leader is None else leader.replicas:
            if node_id != observed.broker.node_id and leader is not None and (held := leader.held_by(node_id)[1]) >= 0:
                most = max(most, partition.log.end_offset - held)
        if count % AT_ONCE == 0:
            yield None
    yield Sample({}, most)


REPLICAS: tuple[ObservedFamily, ...] = (
    single("qanat_partitions", "gauge", "Replicas on this broker.", lambda o: len(o.broker.local_replicas.logs)),
    single("qanat_partitions_led", "gauge", "Partitions that this broker leads.", lambda o: len(o.broker.partitions)),
    summed(
        "qanat_partitions_under_replicated",
        "Partitions that this broker leads with a replica out of sync.",
        lambda o: o.partitions,
        _is_under_replicated,
    ),
    summed(
        "qanat_partitions_without_spare",
        "Partitions that this broker leads with no in-sync replica to spare: no broker that has one may restart.",
        lambda o: o.partitions,
        lacks_spare,
    ),
    single(
        "qanat_replicated_bytes_total",
        "counter",
        "Bytes that leaders sent to this broker as their follower.",
        lambda o: o.broker.counters.replicated_bytes,
    ),
    single(
        "qanat_metadata_commit_seconds",
        "histogram",
        "Changes of metadata: until the store had committed or refused them.",
        lambda o: o.broker.metadata.commit_s,
    ),
    single(
        "qanat_is_controller",
        "gauge",
        "1 where this broker is the controller.",
        lambda o: int(o.broker.controller_loop.is_controller),
    ),
    single(
        "qanat_elections_waiting",
        "gauge",
        "Partitions whose election waits for proofs, for brokers to come back, or for an operator; 0 unless this is "
        "the controller.",
        lambda o: len(o.broker.controller_loop.waiting) if o.broker.controller_loop.is_controller else 0,
    ),
    single(
        "qanat_partitions_leaderless",
        "gauge",
        "Partitions of the cluster without a leader; 0 unless this is the controller.",
        _leaderless,
    ),
    summed(
        "qanat_partitions_below_min_in_sync",
        "Partitions that this broker leads with fewer replicas in sync than writes with acks=all need.",
        lambda o: o.partitions,
        lambda one: one.lacks_replicas,
    ),
    single(
        "qanat_in_sync_shrinks_total",
        "counter",
        "Replicas that fell out of sync with this broker as their leader.",
        lambda o: o.broker.isr_changes.shrinks,
    ),
    single(
        "qanat_in_sync_expansions_total",
        "counter",
        "Replicas that came back in sync with this broker as their leader.",
        lambda o: o.broker.isr_changes.expansions,
    ),
    single(
        "qanat_unclean_elections_total",
        "counter",
        "Leaders elected by this broker, as the controller, that may lack records.",
        lambda o: o.broker.controller_loop.unclean_elections,
    ),
    Family(
        "qanat_follower_lag_records",
        "gauge",
        "Records that the slowest follower of this broker lacks.",
        (),
        _follower_lag,
    ),
)
