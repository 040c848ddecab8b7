"""The partitions that this broker has, kept in line with the picture of the cluster.

Rule 1: a partition that cannot be hosted holds up no other. Clients get KAFKA_STORAGE_ERROR for it, operators a
        line; where it may be better later (a full disk), it is tried again.
Rule 2: a log goes only when its topic is known to be deleted: it was deleted before our eyes, or the store
        has been at a revision at which the topic was there, and has it no more. Any other log that
        nobody knows (the store was put back to an older copy) is set aside under the ending `-stray`, for a
        person to decide.
Rule 3: who commits a change waits for `host_topic`; what others commit is carried out by `follow`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from weakref import WeakValueDictionary

from qanat.broker.partition import Partition
from qanat.broker.topic_settings import TopicSettings
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.topic_names import INTERNAL_TOPICS
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.workers import LOGS_MADE_AT_ONCE
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import DirectoryFailedError, QanatError, StorageError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import event as tell

_RETRY_S = 5.0


class Hosting:
    """What we host. `start` before use; `spawn` runs a coroutine beside everything else until the broker closes."""

    def __init__(
        self,
        node_id: int,
        runtime: LogRuntime,
        image: MetadataImage,
        topic_settings: Callable[[str], TopicSettings],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._node_id = node_id
        self._runtime = runtime
        self._directory = runtime.directory
        self._image = image
        self._topic_settings = topic_settings
        self._spawn = spawn
        self.partitions: dict[TopicPartition, Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.writable: dict[tuple[str, int], Partition] = {}
        """Those that clients may write to, by name: looked up for every batch."""
        self.is_gated = False
        """Whether a transaction's first record in a partition needs the coordinator's word."""
        self._failed: dict[TopicPartition, QanatError] = {}
        """Partitions that could not be made, and why."""
        self._by_topic: dict[str, dict[TopicPartition, Partition]] = {}
        self._by_log: dict[PartitionLog, Partition] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._is_started = False
        self._latest: dict[str, object] = {}
        """The newest attempt at each topic that failed; older ones give up."""
        runtime.on_flushed = self._on_flushed

    async def start(self, revision: int) -> None:
        """Host everything that is ours. `revision` is the store's, as it was before we wrote to it."""
        self._is_started = True
        for at in [*self._directory.logs, *self._directory.offline]:
            if not self._is_known(at):
                await self._settle_stray(at, revision)
        for name in list(self._image.topics):
            try:
                await self.host_topic(name)
            except QanatError as fault:
                self._retry_later(name, fault)
        # Logs whose folders are gone and that nobody asked for: their topics are gone, too.
        self._directory.lost.clear()

    def why_missing(self, at: TopicPartition) -> ErrorCode:
        """What to answer for a partition that is not in `partitions`."""
        is_broken = at.topic in self._image.topics and (at in self._directory.offline or at in self._failed)
        return ErrorCode.KAFKA_STORAGE_ERROR if is_broken else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def obey(self, topic: str) -> None:
        """Let a topic's settings take effect."""
        settings = self._topic_settings(topic)
        for partition in self._by_topic.get(topic, {}).values():
            partition.obey(settings)

    def follow(self, name: str) -> None:
        """Bring a topic in line beside everything else: somebody has changed it."""
        if self._is_started:
            self._spawn(self._follow(name))

    async def host_topic(self, name: str) -> None:
        """Bring what we host of a topic in line with the picture: create what is new, remove what is gone."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            topic = self._image.topics.get(name)
            wanted = {} if topic is None else self._ours(topic)
            gone = [
                at
                for at, one in self._by_topic.get(name, {}).items()
                if topic is None or at not in wanted or one.topic_id != _raw(topic)
            ]
            for at in gone:
                self._retire(at)  # All at once: nobody is to see a topic that is half there.
            lost = [at for at in self._directory.offline if at.topic == name and at not in wanted]
            for at in [at for at in self._failed if at.topic == name and at not in wanted]:
                del self._failed[at]
            await self._few_at_a_time(gone, self._runtime.delete)
            await self._few_at_a_time(lost, self._delete_offline)
            if topic is not None:
                missing = [at for at in wanted if at not in self.partitions and at not in self._directory.offline]
                await self._few_at_a_time(missing, lambda at: self._host(at, topic))

    # What is ours

    def _ours(self, topic: values.Topic) -> dict[TopicPartition, None]:
        replicas = enumerate(topic.partitions)
        return {TopicPartition(topic.name, number): None for number, nodes in replicas if self._node_id in nodes}

    def _is_known(self, at: TopicPartition) -> bool:
        """Whether a log that lies in our directory belongs there."""
        topic = self._image.topics.get(at.topic)
        if topic is None:
            return keys.topic(at.topic) in self._image.revisions  # It is there; we cannot read it.
        return at in self._ours(topic) and self._directory.topic_ids.get(at, "") in ("", topic.topic_id)

    async def _settle_stray(self, at: TopicPartition, revision: int) -> None:
        """Remove a log that nobody knows where its topic was deleted; set it aside where that is not certain."""
        topic_id, since = self._directory.topic_ids.get(at, ""), self._directory.known_since(at)
        is_there = any(str(known) == topic_id for known in self._image.topics_by_id)
        try:
            if topic_id and not is_there and since is not None and since <= revision:
                await self._runtime.delete(at)
                tell("partition removed: its topic was deleted meanwhile", partition=str(at), topic_id=topic_id)
                return
            folder = await self._runtime.set_aside(at)
            tell(
                "partition set aside: the metadata store does not know it",
                level="warning",
                partition=str(at),
                topic_id=topic_id,
                folder=folder,
                advice="if metadata.db was put back to an older copy, stop, put the newer one back and rename the "
                "folder to its old name; otherwise remove the folder",
            )
        except QanatError as fault:
            tell("partition cannot be removed", level="error", partition=str(at), reason=str(fault))

    # Hosting

    async def _host(self, at: TopicPartition, topic: values.Topic) -> None:
        try:
            log = self._found(at, topic) or await self._create(at, topic)
        except QanatError as fault:
            self._failed[at] = fault
            raise
        self._failed.pop(at, None)
        partition = Partition(log, self._runtime, _raw(topic), leader_epoch=0)
        partition.obey(self._topic_settings(at.topic))
        log.producers.is_gated = self.is_gated
        self.partitions[at] = partition
        self._by_topic.setdefault(at.topic, {})[at] = partition
        if not (topic.is_internal or topic.name in INTERNAL_TOPICS):
            self.writable[at.topic, at.partition] = partition
        self.by_id[partition.topic_id, at.partition] = partition
        self._by_log[log] = partition

    def _found(self, at: TopicPartition, topic: values.Topic) -> PartitionLog | None:
        log = self._directory.logs.get(at)
        if log is not None and self._directory.topic_ids[at] not in ("", topic.topic_id):
            raise StorageError(f"{log.directory} holds the log of an earlier topic and cannot be removed; move it away")
        return log

    async def _create(self, at: TopicPartition, topic: values.Topic) -> PartitionLog:
        revision = self._image.revisions[keys.topic(topic.name)]
        return await self._runtime.create(at, topic.topic_id, self._topic_settings(at.topic).log, revision)

    async def _delete_offline(self, at: TopicPartition) -> None:
        try:
            await self._runtime.delete(at)
        except QanatError as fault:
            # The topic is gone for clients; the next start tries again.
            tell("partition cannot be removed", level="error", partition=str(at), reason=str(fault))

    def _retire(self, at: TopicPartition) -> None:
        partition = self.partitions.pop(at)
        del self._by_topic[at.topic][at]
        if not self._by_topic[at.topic]:
            del self._by_topic[at.topic]
        self.writable.pop((at.topic, at.partition), None)
        self.by_id.pop((partition.topic_id, at.partition), None)
        self._by_log.pop(partition.log, None)
        partition.retire()

    async def _few_at_a_time(
        self, partitions: Sequence[TopicPartition], act: Callable[[TopicPartition], Coroutine[Any, Any, None]]
    ) -> None:
        """What fails does not hold up the others, and is raised at the end."""
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

    # What others have changed

    async def _follow(self, name: str) -> None:
        try:
            await self.host_topic(name)
        except QanatError as fault:
            self._retry_later(name, fault)

    def _retry_later(self, name: str, fault: QanatError) -> None:
        waiting = [str(at) for at in self._failed if at.topic == name]
        tell("partitions cannot be hosted now", level="error", topic=name, waiting=len(waiting), reason=str(fault))
        if not isinstance(fault, DirectoryFailedError):
            self._latest[name] = attempt = object()
            self._spawn(self._retry(name, attempt))

    async def _retry(self, name: str, attempt: object) -> None:
        await asyncio.sleep(_RETRY_S)
        if self._latest.get(name) is attempt:
            del self._latest[name]
            await self._follow(name)

    def _on_flushed(self, log: PartitionLog) -> None:
        partition = self._by_log.get(log)
        if partition is not None:
            partition.advance()


def _raw(topic: values.Topic) -> bytes:
    return topic.identity.value.bytes
