"""Replication bugs: commit, truncation and append on leaders and followers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from qanat.api.records import fetch as fetch_api
from qanat.broker.replicas import fetch
from qanat.broker.replicas.fetch import Fetch, Found, Wanted
from qanat.broker.replicas.isr_changes import IsrChanges
from qanat.broker.replicas.local_replicas import FollowerReplica, LocalReplicas
from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.replica_fetchers import _ReplicaFetcher
from qanat.cluster.values import PartitionState
from qanat.log.leader_epochs import EpochStart, LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.model.ids import LeaderEpoch, Offset, TopicPartition
from qanat.replication.leader import Leader
from qanat.wire.kafka.messages.fetch import FetchResponse, PartitionData
from verify.clusters.bug_bank.bug import Patches


def truncate_to_the_high_watermark(patches: Patches) -> None:
    """C01 (KIP-101): a follower of a new leader cuts what it does not know to be committed."""
    apply = _ReplicaFetcher._apply

    def applied(followed: _ReplicaFetcher, replica: FollowerReplica, row: PartitionData) -> asyncio.Future[None] | None:
        log, cut = replica.log, followed.__dict__.setdefault("cut", set())
        if (replica.at, replica.leader_epoch) not in cut and log.high_watermark < log.end_offset:
            cut.add((replica.at, replica.leader_epoch))
            followed._truncate(replica, lambda: followed._host.runtime.truncate(log, log.high_watermark))
            return None
        cut.add((replica.at, replica.leader_epoch))
        return apply(followed, replica, row)

    patches.put(_ReplicaFetcher, "_apply", applied)


def never_truncate(patches: Patches) -> None:
    """C06: a leader does not compare leader epochs, so a diverged follower never truncates."""

    def no(wanted: Wanted, partition: Partition) -> bool:
        return False

    patches.put(fetch, "diverges", no)
    patches.put(fetch_api, "diverges", no)


def write_in_the_epoch_before(patches: Patches) -> None:
    """C02, C04: a new leader writes records with the leader epoch before its own."""

    def become_leader(log: PartitionLog, epoch: LeaderEpoch) -> None:
        log._first_epoch = epoch

    append = PartitionLog.append

    def appended(log: PartitionLog, admitted: Any, leader_epoch: int, now_ms: int) -> Any:
        return append(log, admitted, max(log.epochs.latest, 0), now_ms)

    append_fast = PartitionLog.append_fast

    def appended_fast(log: PartitionLog, batch: memoryview, header: Any, leader_epoch: int, now_ms: int) -> Any:
        return append_fast(log, batch, header, max(log.epochs.latest, 0), now_ms)

    patches.put(PartitionLog, "become_leader", become_leader)
    patches.put(PartitionLog, "append", appended)
    patches.put(PartitionLog, "append_fast", appended_fast)


def forget_where_an_epoch_began(patches: Patches) -> None:
    """C05: an epoch that continues after another one without records gets a later start offset."""

    def assign(epochs: LeaderEpochs, epoch: LeaderEpoch, start_offset: Offset) -> None:
        if epoch < 0 or epoch == epochs.latest:
            return
        entries = epochs._entries
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        epochs.latest = epoch
        epochs.is_dirty = True

    patches.put(LeaderEpochs, "assign", assign)


def commit_by_the_wanted_isr(patches: Patches) -> None:
    """C09: a member no longer counts as soon as the leader wants to drop it."""
    patches.put(Leader, "_maximal", lambda leader: leader.in_sync if leader._pending is None else leader._pending)


def commit_by_the_stored_isr(patches: Patches) -> None:
    """C09: a new member counts only when the leader has learnt that the store took it."""
    patches.put(Leader, "_maximal", lambda leader: leader.in_sync)


def forget_a_change_without_an_answer(patches: Patches) -> None:
    """C09: a leader takes a change of the in-sync set whose outcome is unknown for one that failed."""
    from qanat.model.errors import StoreUnavailableError

    async def tried(sets: IsrChanges, compares: Any, operations: Any) -> bool:
        try:
            return await sets._node.metadata.commit(compares, operations)
        except StoreUnavailableError:
            return False

    patches.put(IsrChanges, "_commit_until_known", tried)


def join_before_the_epoch_is_reached(patches: Patches) -> None:
    """C11: a follower joins at the high watermark, before it has reached the start of the leader's epoch."""

    def may_join(leader: Leader, node_id: int, alive: Mapping[int, int], high_watermark: int) -> bool:
        follower = leader._followers.get(node_id)
        return follower is not None and follower.epoch == alive[node_id] and follower.offset >= high_watermark

    patches.put(Leader, "_may_join", may_join)


def join_by_fetching(patches: Patches) -> None:
    """C11: a follower joins with its first fetch."""

    def may_join(leader: Leader, node_id: int, alive: Mapping[int, int], high_watermark: int) -> bool:
        follower = leader._followers.get(node_id)
        return follower is not None and follower.epoch == alive[node_id] and follower.offset >= 0

    patches.put(Leader, "_may_join", may_join)


def believe_the_process_before(patches: Patches) -> None:
    """C10 (KIP-903): the progress of a broker's old process counts for its new one."""

    def may_join(leader: Leader, node_id: int, alive: Mapping[int, int], high_watermark: int) -> bool:
        follower = leader._followers.get(node_id)
        return follower is not None and follower.offset >= max(high_watermark, leader._epoch_start)

    patches.put(Leader, "_may_join", may_join)


def commit_with_too_few(patches: Patches) -> None:
    """C12, KIP-966: an in-sync set smaller than min.insync.replicas commits."""

    def committed(leader: Leader, own_offset: int) -> int | None:
        least = own_offset
        for node_id in leader._maximal():
            if node_id != leader._node_id:
                follower = leader._followers.get(node_id)
                if follower is None or follower.offset < 0:
                    return None
                least = min(least, follower.offset)
        return least

    patches.put(Leader, "committed", committed)
    patches.put(Partition, "in_sync_replicas", property(lambda partition: 99))


def take_answers_of_the_leader_before(patches: Patches) -> None:
    """C06: what was asked of one leader is appended although another leads by now."""
    apply_all = _ReplicaFetcher._apply_all

    async def applied(
        followed: _ReplicaFetcher, response: FetchResponse, fetched: dict[TopicPartition, FollowerReplica]
    ) -> None:
        now, followed._replicas = followed._replicas, {**followed._replicas, **fetched}
        try:
            await apply_all(followed, response, fetched)
        finally:
            followed._replicas = now

    patches.put(_ReplicaFetcher, "_apply_all", applied)


def lead_on_after_a_restart(patches: Patches) -> None:
    """C02: a restarted leader continues in its old leader epoch."""
    from qanat.cluster import elections

    def leads(local_replicas: LocalReplicas, state: PartitionState) -> bool:
        return state.leader == local_replicas._node_id

    patches.put(LocalReplicas, "_leads", leads)
    patches.put(elections, "_still_leads", lambda leader, before, statuses: leader in statuses.nodes.alive)


def show_what_is_not_committed(patches: Patches) -> None:
    """C12, C22: consumers read to the end of the log."""
    bounds = Fetch._bounds

    def to_the_end(fetch: Fetch, wanted: Wanted) -> tuple[Found, int | None]:
        found, end_offset = bounds(fetch, wanted)
        if end_offset is not None and isinstance(wanted.partition, Partition):
            return found, wanted.partition.log.end_offset
        return found, end_offset

    patches.put(Fetch, "_bounds", to_the_end)


def forget_producers_on_followers(patches: Patches) -> None:
    """C30: a follower does not record producers' sequences, and leads later."""
    from qanat.log.producers import Producers

    replay = Producers.replay

    def skipped(producers: Producers, header: Any, batch: Any, now_ms: int) -> Any:
        if header.is_control or header.is_transactional:
            return replay(producers, header, batch, now_ms)
        return None

    patches.put(Producers, "replay", skipped)


def mix_topics_of_one_name(patches: Patches) -> None:
    """C19: a topic that was deleted and made again is taken for the same."""
    reconcile_topic = LocalReplicas.reconcile_topic

    async def hosted(local_replicas: LocalReplicas, name: str) -> None:
        topic, logs = local_replicas._image.topics.get(name), local_replicas._by_topic.get(name, {})
        if topic is None:
            return  # The topic may be created again.
        for at in logs:
            logs[at] = topic.identity.value.bytes
        await reconcile_topic(local_replicas, name)

    patches.put(LocalReplicas, "reconcile_topic", hosted)
