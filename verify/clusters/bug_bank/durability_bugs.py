"""Durability bugs: acknowledgements before a record is on disk, or on other replicas."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from qanat.broker.coordinators.coordinator_shard import CoordinatorShard
from qanat.broker.replicas import replica_fetchers
from qanat.broker.replicas.local_replicas import FollowerReplica
from qanat.broker.replicas.partition import Partition, Written, written_at
from qanat.broker.replicas.replica_fetchers import _ReplicaFetcher
from qanat.log.recovery import active_segment_recovery
from qanat.log.runtime.group_commit import GroupCommit
from qanat.model.error_codes import ErrorCode
from qanat.replication.leader import Leader
from qanat.wire.kafka.messages.fetch import PartitionData
from verify.clusters.bug_bank.bug import Patches


def follow_without_fsync(patches: Patches) -> None:
    """T7: a follower reports records that are not on its disk yet."""
    append = _ReplicaFetcher._append

    def appended(
        followed: _ReplicaFetcher, replica: FollowerReplica, row: PartitionData
    ) -> asyncio.Future[None] | None:
        append(followed, replica, row)
        return None

    patches.put(_ReplicaFetcher, "_append", appended)
    patches.put(replica_fetchers, "_is_settled", lambda replica: replica.log.running_job != "truncation")


def commit_without_the_leaders_disk(patches: Patches) -> None:
    """T7: the leader commits records that followers have and its own disk has not."""
    committed = Leader.committed

    def by_followers(leader: Leader, own_offset: int) -> int | None:
        has_followers = any(node_id != leader._node_id for node_id in leader._maximal())
        return committed(leader, 2**62 if has_followers else own_offset)

    patches.put(Leader, "committed", by_followers)


def acknowledge_when_leadership_ends(patches: Patches) -> None:
    """C17: a leader that is replaced acknowledges the produce requests that wait."""
    retire = Partition.retire

    def retired(partition: Partition, why: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        waiting, partition._acknowledged = partition._acknowledged, deque()
        for _, committed in waiting:
            committed.settle(None)
        retire(partition, why)

    patches.put(Partition, "retire", retired)


def acknowledge_what_is_written(patches: Patches) -> None:
    """C12: acks=all is answered when only the leader has the records."""
    patches.put(Partition, "_when_committed", lambda partition, end_offset: None)


def believe_any_base_offset(patches: Patches) -> None:
    """C61: recovery enters a batch that does not continue the log."""
    patches.put(active_segment_recovery, "_enter_known", lambda segment, point: False)
    patches.put(active_segment_recovery, "_enter_around_damage", lambda segment, point, length, epochs: segment.reset())
    patches.put(active_segment_recovery, "_is_hole", lambda segment, position, header, length, is_dense: True)


def go_on_after_a_failed_sync(patches: Patches) -> None:
    """C65: a failed fsync is repeated, and the second one succeeds without the lost pages."""
    end_round = GroupCommit._end_round

    def ended(commits: GroupCommit, logs: Any, jobs: Any, began: float, postponed: Any, fault: Any) -> None:
        if fault is not None:
            for job in jobs.values():
                job.postpone()
            for log in logs:
                commits.request_flush(log)
            jobs, logs, fault = {}, [], None
        end_round(commits, logs, jobs, began, postponed, fault)

    patches.put(GroupCommit, "_end_round", ended)


def coordinate_before_it_is_durable(patches: Patches) -> None:
    """C38, C50: coordinators answer and act before their decision is durable."""
    act = CoordinatorShard.act

    def acted(shard: Any, decision: Any, answer: Any = None) -> None:
        partition, shard.partition = shard.partition, _Hasty(shard.partition)
        try:
            act(shard, decision, answer)
        finally:
            shard.partition = partition

    patches.put(CoordinatorShard, "act", acted)


class _Hasty:
    """A partition that reports every append as durable at once."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def when_durable(self) -> None: ...

    def append_own(self, batch: bytearray) -> Written:
        written = self._partition.append_own(batch)
        return written_at(written.base_offset, written.append_time_ms, None)
