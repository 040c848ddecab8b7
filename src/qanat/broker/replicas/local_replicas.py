"""The replicas on this broker, reconciled with the metadata image.

Rule 1: a replica that cannot be opened does not delay any other. Clients get KAFKA_STORAGE_ERROR for it, operators a
        log event; where it may work later (a full disk), it is tried again.
Rule 2: a log is deleted only when its topic is known to be deleted: this process saw the deletion, or the store has
        been at a revision at which the topic existed, and has it no more. Any other unknown log (the store was restored
        from an older copy) is set aside with the suffix `-stray`, for an operator to decide.
Rule 3: a caller that commits a change awaits `reconcile_topic`; changes by others are applied by `reconcile_soon`.
Rule 4: `partitions` are those that we lead; `fetchers` follows the leaders of the other replicas.
Rule 5: we lead only what the store gave to this very process. What it gave to the process before us may differ from the
        replicas that others have fetched since; the controller gives it again, in a new epoch. A sole replica differs
        from none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.topic_settings import TopicSettings
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.workers import LOGS_MADE_AT_ONCE
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import DirectoryFailedError, QanatError, StorageError
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.model.topic_names import is_for_brokers
from qanat.replication.leader import Leader
from qanat.telemetry.events import log_event

_RETRY_S = 5.0
_CHECKPOINT_S = 1.0
"""How soon after a log was created the checkpoint lists it."""


class FollowerReplica(NamedTuple):
    """A replica of ours that follows another broker."""

    at: TopicPartition
    topic_id: bytes
    log: PartitionLog
    leader: int
    leader_epoch: int


class Fetchers(Protocol):
    """Fetches for follower replicas."""

    truncating: dict[TopicPartition, asyncio.Future[None]]
    """Replicas that are being truncated, each with a future for its end: they must not lead before."""
    replicas: dict[TopicPartition, FollowerReplica]
    """Replicas that follow a leader, or will when one is elected."""

    def follow(self, replica: FollowerReplica) -> None: ...

    def leave(self, at: TopicPartition) -> None: ...

    async def close(self) -> None: ...


class LocalReplicas:
    """All replicas of a broker. `start` before use; `spawn` runs a coroutine as a task until the broker closes."""

    def __init__(
        self,
        node_id: int,
        runtime: LogRuntime,
        image: MetadataImage,
        topic_settings: Callable[[str], TopicSettings],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        steady_ms: Callable[[], int],
        running_since: Callable[[], int],
    ) -> None:
        self._steady_ms = steady_ms
        self._running_since = running_since
        self._node_id = node_id
        self._runtime = runtime
        self._directory = runtime.directory
        self._image = image
        self._topic_settings = topic_settings
        self._spawn = spawn
        self.partitions: dict[TopicPartition, Partition] = {}
        """The partitions that we lead."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """The logs of all our replicas."""
        self.fetchers: Fetchers | None = None
        self.lag_max_ms = 0
        self.on_leading: Callable[[Partition], None] | None = None
        """Called with every partition that we begin to lead."""
        self.on_resigned: Callable[[Partition], None] | None = None
        """Called with every partition that we cease to lead."""
        self.on_faults: Callable[[], None] | None = None
        """Called when a log could not be opened or created, or could at last."""
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.writable: dict[tuple[str, int], Partition] = {}
        """Partitions that clients may write to, by name: looked up for every batch."""
        self.is_verification_required = False
        """Whether a transaction's first record in a partition needs the coordinator's confirmation."""
        self._failed: dict[TopicPartition, QanatError] = {}
        """Replicas that could not be opened or created, and why."""
        self._by_topic: dict[str, dict[TopicPartition, bytes]] = {}
        """Our logs of each topic, with the topic's id."""
        self._by_log: dict[PartitionLog, Partition] = {}
        self._cutting: dict[TopicPartition, None] = {}
        """Mirrors that are being cut: they are not led meanwhile."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._awaited: set[str] = set()
        """Topics that will be reconciled anyway: a thousand changes while logs are created are one reason to look at
        every partition, not a thousand."""
        self._is_started = False
        self._is_checkpoint_due = False
        self._revision = 0
        """The store's revision before we wrote to it."""
        self._latest: dict[str, object] = {}
        """The newest attempt at each topic that failed; older ones give up."""
        runtime.on_flushed = self._on_flushed

    async def start(self, revision: int) -> None:
        """Open everything that is ours. `revision` is the store's before we wrote to it."""
        self._is_started = True
        self._revision = revision
        for at in [*self._directory.logs, *self._directory.offline]:
            async with self._locks.setdefault(at.topic, asyncio.Lock()):
                if self._is_stray(at):
                    await self._settle_stray(at)
        for name in list(self._image.topics):
            try:
                await self.reconcile_topic(name)
            except QanatError as fault:
                self._retry_later(name, fault)
        # Logs whose folders are missing and that no topic needs: their topics were deleted.
        self._directory.lost.clear()

    def is_unavailable(self, topic: str, number: int) -> bool:
        """Whether this is a replica of ours whose log cannot be opened or created."""
        offline, failed = self._directory.offline, self._failed
        if not (offline or failed):
            return False
        at = TopicPartition(topic, number)
        return at in offline or at in failed

    def why_offline(self, at: TopicPartition) -> str | None:
        """Why a log of ours cannot be opened or created; None where it can."""
        fault = self._directory.offline.get(at) or self._failed.get(at)
        return None if fault is None else str(fault)

    def offline_partitions(self) -> list[TopicPartition]:
        """Our replicas whose logs cannot be opened or created."""
        ours = [at for at in self._directory.offline if self._is_known(at)]
        return [*ours, *(at for at in self._failed if at not in self._directory.offline)]

    def why_missing(self, at: TopicPartition) -> ErrorCode:
        """The error for a partition that is not in `partitions`."""
        topic = self._image.topics.get(at.topic)
        if topic is None or not 0 <= at.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.is_unavailable(at.topic, at.partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._image.state(topic, at.partition)
        is_here = state.leader == self._node_id and len(state.replicas) == 1
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_here else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def apply_settings(self, topic: str) -> None:
        """Apply a topic's settings."""
        settings = self._topic_settings(topic)
        for at in self._by_topic.get(topic, ()):
            if (partition := self.partitions.get(at)) is not None:
                partition.apply_settings(settings)
            else:
                self.logs[at].apply_settings(settings.log)

    def reconcile_soon(self, name: str) -> None:
        """Reconcile a topic in a task of its own: another broker has changed it."""
        if self._is_started and name not in self._awaited:
            self._awaited.add(name)
            self._spawn(self._reconcile(name))

    async def reconcile_topic(self, name: str) -> None:
        """Reconcile our replicas of a topic with the image: create the new ones, remove those that are gone."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            self._awaited.discard(name)  # Changes from here on need another look.
            topic = self._image.topics.get(name)
            wanted = {} if topic is None else self._ours(topic)
            gone = [
                at
                for at, topic_id in self._by_topic.get(name, {}).items()
                if topic is None or at not in wanted or topic_id != _raw(topic)
            ]
            for at in gone:
                self._retire(at)  # All at once: clients must not see a topic that is half there.
            lost = [at for at in self._directory.offline if at.topic == name and at not in wanted]
            for at in [at for at in self._failed if at.topic == name and at not in wanted]:
                del self._failed[at]
            await self._few_at_a_time(gone, self._runtime.delete)
            await self._few_at_a_time(lost, self._delete_offline)
            if topic is not None:
                for at in self._by_topic.get(name, ()):
                    self._lead_or_follow(at, topic)
                # A topic may be deleted and created again while we start, before its log was opened.
                for at in [at for at in wanted if self._is_stray(at)]:
                    await self._settle_stray(at)
                for at in [at for at in wanted if at in self._directory.offline]:
                    self._give_up_lost(at, topic)
                missing = [at for at in wanted if at not in self.logs and at not in self._directory.offline]
                await self._few_at_a_time(missing, lambda at: self._open(at, topic))

    def lead_or_follow(self, topic: values.Topic, number: int) -> None:
        """Lead a partition or follow its leader, as the image says now."""
        at = TopicPartition(topic.name, number)
        # Our log may be of an earlier topic of this name, with more partitions.
        is_ours = number < len(topic.partitions) and self._node_id in self._image.state(topic, number).replicas
        if is_ours == (at in self.logs) and self._by_topic.get(topic.name, {}).get(at, _raw(topic)) == _raw(topic):
            if is_ours:
                self._lead_or_follow(at, topic)
        else:
            self.reconcile_soon(topic.name)

    def lead_or_follow_all(self) -> None:
        """The same for all our replicas: our epoch has changed, or other brokers' have."""
        for at in list(self.logs):
            if (topic := self._image.topics.get(at.topic)) is not None:
                self.lead_or_follow(topic, at.partition)

    async def cut_mirror(self, at: TopicPartition, cut: Callable[[PartitionLog], Coroutine[Any, Any, None]]) -> None:
        """Cease to lead a mirror, truncate its log as a follower does, and lead again. The caller then commits another
        epoch, in which clients look at it anew."""
        self._cutting[at] = None
        if at in self.partitions:
            self._resign(at)
        try:
            await cut(self.logs[at])
        finally:
            del self._cutting[at]
            self._lead_or_follow_later(at)

    def state_of(self, at: TopicPartition) -> values.PartitionState | None:
        """A partition's state in the image."""
        topic = self._image.topics.get(at.topic)
        is_there = topic is not None and at.partition < len(topic.partitions)
        return self._image.state(topic, at.partition) if topic is not None and is_there else None

    # Which replicas are ours

    def _ours(self, topic: values.Topic) -> dict[TopicPartition, None]:
        return {
            TopicPartition(topic.name, number): None
            for number in range(len(topic.partitions))
            if self._node_id in self._image.state(topic, number).replicas
        }

    def _is_known(self, at: TopicPartition) -> bool:
        """Whether a log in our directory belongs there."""
        topic = self._image.topics.get(at.topic)
        if topic is None:
            return keys.topic(at.topic) in self._image.revisions  # It exists; we cannot read its value.
        if at.partition >= len(topic.partitions) or self._directory.topic_ids.get(at, "") not in ("", topic.topic_id):
            return False
        return self._node_id in self._image.state(topic, at.partition).replicas

    def _is_stray(self, at: TopicPartition) -> bool:
        """Whether an unknown log is in our directory that was not opened meanwhile."""
        is_there = at in self._directory.logs or at in self._directory.offline
        return is_there and at not in self._by_topic.get(at.topic, ()) and not self._is_known(at)

    async def _settle_stray(self, at: TopicPartition) -> None:
        """Delete an unknown log where its topic was deleted; set it aside where that is not certain."""
        topic_id, since = self._directory.topic_ids.get(at, ""), self._directory.known_since(at)
        is_there = any(str(known) == topic_id for known in self._image.topics_by_id)
        try:
            if topic_id and not is_there and since is not None and since <= self._revision:
                await self._runtime.delete(at)
                log_event("partition removed: its topic was deleted meanwhile", partition=str(at), topic_id=topic_id)
                return
            folder = await self._runtime.set_aside(at)
            log_event(
                "partition set aside: the metadata store does not know it",
                level="warning",
                partition=str(at),
                topic_id=topic_id,
                folder=folder,
                advice="if metadata.db was put back to an older copy, stop, put the newer one back and rename the "
                "folder to its old name; otherwise remove the folder",
            )
        except QanatError as fault:
            log_event("partition cannot be removed", level="error", partition=str(at), reason=str(fault))

    # Opening

    async def _open(self, at: TopicPartition, topic: values.Topic) -> None:
        try:
            log = self._found(at, topic) or await self._create(at, topic)
        except QanatError as fault:
            self._failed[at] = fault
            self._on_faults_changed()
            raise
        if self._failed.pop(at, None) is not None:
            self._on_faults_changed()
        log.producers.requires_verification = self.is_verification_required
        log.apply_settings(self._topic_settings(at.topic).log)
        self.logs[at] = log
        self._by_topic.setdefault(at.topic, {})[at] = _raw(topic)
        # The image may have changed while the log was created.
        if (latest := self._image.topics.get(at.topic)) is not None and latest.topic_id == topic.topic_id:
            self.lead_or_follow(latest, at.partition)

    def _on_faults_changed(self) -> None:
        if self._is_started and self.on_faults is not None:
            self.on_faults()

    def _lead_or_follow(self, at: TopicPartition, topic: values.Topic) -> None:
        if self.fetchers is not None and (truncating := self.fetchers.truncating.get(at)) is not None:
            truncating.add_done_callback(lambda _: self._lead_or_follow_later(at))
            return
        if at in self._cutting:
            return
        state = self._image.state(topic, at.partition)
        led = self.partitions.get(at)
        if self._leads(state):
            if led is None or led.leader_epoch != state.leader_epoch:
                self._lead(at, topic, state)
            elif led.leader is not None:
                self._update_leader(led, led.leader, state)
            elif len(state.replicas) > 1:
                self._lead(at, topic, state)  # It was the sole replica, and gets followers now.
            return
        if led is not None:
            self._resign(at)
        self._follow_leader(at, topic, state)

    def _lead_or_follow_later(self, at: TopicPartition) -> None:
        if (topic := self._image.topics.get(at.topic)) is not None and at in self.logs:
            self.lead_or_follow(topic, at.partition)

    def _leads(self, state: values.PartitionState) -> bool:
        return state.leader == self._node_id and (len(state.replicas) == 1 or self.is_in_sync(state))

    def is_in_sync(self, state: values.PartitionState) -> bool:
        """Whether the in-sync set names this very process, and not the one before us."""
        ours = self._image.broker_epochs.get(self._node_id)
        given = next((member.since for member in state.in_sync if member.node_id == self._node_id), None)
        return ours is not None and given is not None and ours <= given

    def _lead(self, at: TopicPartition, topic: values.Topic, state: values.PartitionState) -> None:
        if at in self.partitions:
            self._resign(at)
        if self.fetchers is not None:
            self.fetchers.leave(at)
        log = self.logs[at]
        leader = None
        if len(state.replicas) > 1:
            leader = Leader(self._node_id, log.end_offset, self.lag_max_ms)
        settings = self._topic_settings(at.topic)
        is_mirror = bool(settings.mirror_source)
        partition = Partition(log, self._runtime, _raw(topic), state.leader_epoch, leader, is_mirror=is_mirror)
        if leader is not None:
            self._update_leader(partition, leader, state)
        partition.apply_settings(settings)
        self.partitions[at] = partition
        if not is_mirror and not is_for_brokers(topic.name, topic.is_internal):
            self.writable[at.topic, at.partition] = partition
        self.by_id[partition.topic_id, at.partition] = partition
        self._by_log[log] = partition
        if self.on_leading is not None:
            self.on_leading(partition)

    def _update_leader(self, partition: Partition, leader: Leader, state: values.PartitionState) -> None:
        leader.stored(state.replicas, state.in_sync_nodes, self._steady_ms(), is_held=bool(state.eligible))
        partition.advance()
        partition.note_starts()

    def _follow_leader(self, at: TopicPartition, topic: values.Topic, state: values.PartitionState) -> None:
        log = self.logs[at]
        log.become_follower(LeaderEpoch(state.leader_epoch))
        if self.fetchers is not None:
            self.fetchers.follow(FollowerReplica(at, _raw(topic), log, state.leader, state.leader_epoch))

    def _resign(self, at: TopicPartition, why: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Cease to lead; the log stays."""
        partition = self.partitions.pop(at)
        self.writable.pop((at.topic, at.partition), None)
        self.by_id.pop((partition.topic_id, at.partition), None)
        self._by_log.pop(partition.log, None)
        partition.retire(why)
        if self.on_resigned is not None:
            self.on_resigned(partition)

    def _found(self, at: TopicPartition, topic: values.Topic) -> PartitionLog | None:
        log = self._directory.logs.get(at)
        if log is not None and self._directory.topic_ids[at] not in ("", topic.topic_id):
            raise StorageError(f"{log.directory} holds the log of an earlier topic and cannot be removed; move it away")
        return log

    async def _create(self, at: TopicPartition, topic: values.Topic) -> PartitionLog:
        # The topic may be deleted while its logs are created.
        revision = self._image.revisions.get(keys.topic(topic.name), self._image.revision)
        generation = self._running_since()
        settings = self._topic_settings(at.topic).log
        log = await self._runtime.create(at, topic.topic_id, settings, revision, generation)
        member = next(
            (one for one in self._image.state(topic, at.partition).in_sync if one.node_id == self._node_id), None
        )
        if member is not None and member.since < generation:
            log_event("replica created again: its folder is missing", level="warning", partition=str(at))
        self._on_created()
        return log

    def _give_up_lost(self, at: TopicPartition, topic: values.Topic) -> None:
        """Create a log again whose folder is missing, once another replica leads and the cluster counts ours as
        damaged."""
        state = self._image.state(topic, at.partition)
        is_led_elsewhere = state.leader not in (values.NO_LEADER, self._node_id)
        if self._node_id in state.damaged and is_led_elsewhere and self._directory.forget_lost(at):
            log_event("replica created again from its leader", partition=str(at), leader=state.leader)

    def _on_created(self) -> None:
        """Have the checkpoint list a new log soon: from then on we notice if its folder is missing."""
        if not self._is_checkpoint_due:
            self._is_checkpoint_due = True
            self._spawn(self._checkpoint_soon())

    async def _checkpoint_soon(self) -> None:
        await asyncio.sleep(_CHECKPOINT_S)
        self._is_checkpoint_due = False
        with suppress(StorageError):  # The directory has failed, which is reported; or the next checkpoint is written.
            await self._runtime.checkpoint()

    async def _delete_offline(self, at: TopicPartition) -> None:
        try:
            await self._runtime.delete(at)
        except QanatError as fault:
            # The topic is gone for clients; the next start tries again.
            log_event("partition cannot be removed", level="error", partition=str(at), reason=str(fault))

    def _retire(self, at: TopicPartition) -> None:
        if at in self.partitions:
            self._resign(at, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif self.fetchers is not None:
            self.fetchers.leave(at)
        del self.logs[at]
        del self._by_topic[at.topic][at]
        if not self._by_topic[at.topic]:
            del self._by_topic[at.topic]

    async def _few_at_a_time(
        self, partitions: Sequence[TopicPartition], act: Callable[[TopicPartition], Coroutine[Any, Any, None]]
    ) -> None:
        """A failure does not delay the others; it is raised at the end."""
        left, faults = iter(partitions), list[QanatError]()

        async def act_on_left() -> None:
            for at in left:
                try:
                    await act(at)
                except QanatError as fault:
                    faults.append(fault)

        await asyncio.gather(*(act_on_left() for _ in partitions[:LOGS_MADE_AT_ONCE]))
        if faults:
            raise faults[0]

    # Changes by others

    async def _reconcile(self, name: str) -> None:
        try:
            await self.reconcile_topic(name)
        except QanatError as fault:
            self._retry_later(name, fault)

    def _retry_later(self, name: str, fault: QanatError) -> None:
        waiting = [str(at) for at in self._failed if at.topic == name]
        log_event("replicas cannot be opened now", level="error", topic=name, waiting=len(waiting), reason=str(fault))
        if not isinstance(fault, DirectoryFailedError):
            self._latest[name] = attempt = object()
            self._spawn(self._retry(name, attempt))

    async def _retry(self, name: str, attempt: object) -> None:
        await asyncio.sleep(_RETRY_S)
        if self._latest.get(name) is attempt:
            del self._latest[name]
            await self._reconcile(name)

    def _on_flushed(self, log: PartitionLog) -> None:
        partition = self._by_log.get(log)
        if partition is not None:
            partition.advance()


def _raw(topic: values.Topic) -> bytes:
    return topic.identity.value.bytes
