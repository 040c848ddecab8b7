"""ISR changes: followers' fetches report progress, and changes of the in-sync sets are committed to the store.

`replication.leader` decides which change it wants. Changes of many partitions are committed at once, each with compares
on the partition's state, on our own registration and on the registrations of the brokers that join: a process that is
not registered any more changes nothing and joins nothing (C08, C10, C81).

A commit whose outcome is unknown is repeated until the store answers: its compares let it happen only once. Until then
both sets count (`Leader.committed`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from qanat.broker.metadata.cluster_node import ClusterNode
from qanat.broker.metadata.confirmed_lease import confirmed
from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.cluster import keys, values
from qanat.cluster.elections import Rules, with_in_sync
from qanat.cluster.store import Compare, CreatedAt, Operation, Put, Revision
from qanat.model.errors import StoreUnavailableError
from qanat.model.ids import TopicId, TopicPartition
from qanat.replication.leader import Change
from qanat.telemetry.events import log_event

_AT_ONCE = 30
"""Partitions of one commit: each has a compare of its own, besides those of brokers."""
_RETRY_S = 0.5


class IsrChanges:
    """Maintains the in-sync sets of all partitions that have followers."""

    def __init__(
        self, node: ClusterNode, partitions: Mapping[TopicPartition, Partition], settings: CurrentSettings
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._settings = settings
        self._wanted: dict[Partition, Change] = {}
        self._committing: asyncio.Task[None] | None = None
        self._at_once = _AT_ONCE
        self.shrinks = 0
        """Replicas that fell out of sync."""
        self.expansions = 0
        """Replicas that came back in sync."""

    async def watch(self) -> None:
        """Look for followers that have fallen behind, for ever."""
        while True:
            await asyncio.sleep(self._settings.broker.replica_lag_time_max_ms / 2000)
            alive = self._alive()
            for number, partition in enumerate(list(self._partitions.values())):
                self._review(partition, alive)
                if number % 100 == 99:
                    await asyncio.sleep(0)

    def note_fetch(
        self, partition: Partition, node_id: int, broker_epoch: int, offset: int, start_offset: int = 0
    ) -> bool:
        """A follower has everything from `start_offset` to `offset`; False where it may not fetch.

        A process that is not the one registered under its node id is no follower, whatever it says that it has.
        """
        registered = self._node.metadata.image.broker_epochs.get(node_id)
        if registered is not None and broker_epoch != registered:
            return False
        leader = partition.leader
        end_offset = partition.log.end_offset
        now_ms = self._node.steady_ms()
        if leader is None or not leader.note_fetch(node_id, broker_epoch, offset, end_offset, now_ms, start_offset):
            return False
        partition.advance()
        partition.note_starts()
        if node_id not in leader.in_sync and not leader.is_changing:
            self._review(partition, self._alive())
        return True

    def _alive(self) -> Mapping[int, int]:
        image = self._node.metadata.image
        return {node_id: image.broker_epochs[node_id] for node_id, one in image.brokers.items() if not one.is_stopping}

    def _review(self, partition: Partition, alive: Mapping[int, int]) -> None:
        leader, log = partition.leader, partition.log
        if leader is None or partition.is_retired:
            return
        if self._node.metadata.image.replica_faults:
            alive = self._without_faulty(partition, alive)
        change = leader.change_wanted(alive, log.high_watermark, log.end_offset, self._node.steady_ms())
        if change is None:
            return
        self._wanted[partition] = change
        if self._committing is None or self._committing.done():
            self._committing = self._node.park(self._commit_all())

    def _without_faulty(self, partition: Partition, alive: Mapping[int, int]) -> Mapping[int, int]:
        topic_id = str(TopicId.of(partition.topic_id))
        faults = self._node.metadata.image.replica_faults.get((topic_id, partition.at.partition), {})
        return {node_id: epoch for node_id, epoch in alive.items() if node_id not in faults}

    async def _commit_all(self) -> None:
        await asyncio.sleep(0)  # Other changes of this turn are committed together.
        while self._wanted:
            piece = dict(list(self._wanted.items())[: self._at_once])
            for partition in piece:
                del self._wanted[partition]
            is_done = await self._commit(piece)
            # A change that fails must not delay the others for ever.
            self._at_once = _AT_ONCE if is_done else 1

    async def _commit(self, piece: Mapping[Partition, Change]) -> bool:
        image = self._node.metadata.image
        epoch = image.broker_epochs.get(self._node.node_id)
        changes = {partition: self._change(partition, change) for partition, change in piece.items()}
        wanted = {partition: found for partition, found in changes.items() if found is not None}
        before = {partition: partition.leader.in_sync for partition in wanted if partition.leader is not None}
        is_stored = False
        if wanted and epoch is not None:
            joined = {one: since for partition in wanted for one, since in piece[partition].joined.items()}
            compares: list[Compare] = [
                CreatedAt(keys.broker(one), Revision(since))
                for one, since in {**joined, self._node.node_id: epoch}.items()
            ]
            compares += [image.unchanged(put.key) for put in wanted.values()]
            is_stored = await self._commit_until_known(compares, list(wanted.values()))
        for partition, change in piece.items():
            if is_stored and partition in wanted:
                self._count(change, before[partition])
                log_event("in-sync set changed", partition=str(partition.at), in_sync=list(change.in_sync))
            self._settle(partition, change)
            partition.advance()
        return is_stored

    def _count(self, change: Change, before: Collection[int]) -> None:
        self.shrinks += sum(node_id not in change.in_sync for node_id in before)
        self.expansions += sum(node_id not in before for node_id in change.in_sync)

    async def _commit_until_known(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Repeat a commit until its outcome is known."""
        while True:
            await confirmed(self._node.membership)
            try:
                return await self._node.metadata.commit(compares, operations)
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)

    def _settle(self, partition: Partition, change: Change) -> None:
        """The outcome of a change is known, and the image is as new as that: the image's set holds.

        Where we do not lead any more, both sets count, to the end: one of them may be how we were replaced, and the
        image has it before the partition does.
        """
        state, leader = self._state(partition), partition.leader
        assert leader is not None, "there is no change without followers"
        if state is not None:
            is_held = bool(state.eligible)
            leader.stored(state.replicas, state.in_sync_nodes, self._node.steady_ms(), is_held=is_held)
            leader.settled(change)

    def _change(self, partition: Partition, change: Change) -> Put | None:
        """The state to write; None where the change was decided on a state that no longer holds."""
        before, leader = self._state(partition), partition.leader
        assert leader is not None, "there is no change without followers"
        if before is None or not leader.is_pending(change):
            return None
        if not set(before.damaged).isdisjoint(change.joined):
            return None  # It is being repaired: it no longer has what it had at its fetch.
        known = {*before.in_sync_nodes, *change.joined}
        if not known.issuperset(change.in_sync):
            return None
        after = with_in_sync(before, change.in_sync, change.joined, Rules(partition.min_insync_replicas))
        key = keys.partition(TopicId.of(partition.topic_id), partition.at.partition)
        return Put(key, values.encode(after, self._node.metadata.image.format_level))

    def _state(self, partition: Partition) -> values.PartitionState | None:
        """The partition's state, where we lead it in the epoch of this object."""
        image = self._node.metadata.image
        topic = image.topics.get(partition.at.topic)
        if partition.is_retired or topic is None or topic.identity.value.bytes != partition.topic_id:
            return None
        state = image.state(topic, partition.at.partition)
        is_ours = state.leader == self._node.node_id and state.leader_epoch == partition.leader_epoch
        return state if is_ours else None
