"""What our own logs hold, as proofs for elections (GetReplicaLogInfo, KIP-966).

The answer comes from the logs as they are open now. A worker reads the generation of each log from its folder.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from msgspec import Struct

from qanat.broker.replicas.local_replicas import LocalReplicas
from qanat.cluster.image import MetadataImage
from qanat.log.directories.directory import LogDirectory
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.ids import TopicId, TopicPartition

PartitionRef = tuple[str, int]
"""A topic's id and a partition's number."""


class ReplicaLog(Struct, frozen=True):
    """What one log holds."""

    generation: int = 0
    leader_epoch: int = -1
    """The partition's leader epoch, as far as this broker knows."""
    last_epoch: int = -1
    end_offset: int = -1
    damage: tuple[tuple[int, int], ...] = ()
    is_offline: bool = False
    reason: str = ""
    """Why it is offline, or the reason of the first damaged range."""
    is_compacted: bool = False


class ReplicaLogs:
    """Describes the logs of one broker."""

    def __init__(self, runtime: LogRuntime, image: MetadataImage, local_replicas: LocalReplicas) -> None:
        self._runtime = runtime
        self._image = image
        self._local_replicas = local_replicas

    async def describe(self, wanted: Sequence[PartitionRef]) -> Mapping[PartitionRef, ReplicaLog]:
        """What each log holds; logs that are not opened or created yet are left out."""
        found = {ref: at for ref in wanted if (at := self._partition(ref)) is not None}
        job = _GenerationsJob(self._runtime.directory, list(found.values()))
        await self._runtime.run_job(job)
        logs = {ref: self._described(ref, at, job.generations.get(at, 0)) for ref, at in found.items()}
        return {ref: log for ref, log in logs.items() if log is not None}

    def _partition(self, ref: PartitionRef) -> TopicPartition | None:
        """The partition, where we have a log of that very topic."""
        topic = self._image.topics_by_id.get(TopicId.parse(ref[0]))
        if topic is None or not 0 <= ref[1] < len(topic.partitions):
            return None
        at = TopicPartition(topic.name, ref[1])
        is_this = self._runtime.directory.topic_ids.get(at, "") in ("", topic.topic_id)
        return at if is_this else None

    def _described(self, ref: PartitionRef, at: TopicPartition, generation: int) -> ReplicaLog | None:
        image = self._image
        topic = image.topics.get(at.topic)
        if topic is None or topic.topic_id != ref[0] or at.partition >= len(topic.partitions):
            return None
        leader_epoch = image.state(topic, at.partition).leader_epoch
        if (reason := self._local_replicas.why_offline(at)) is not None:
            return ReplicaLog(leader_epoch=leader_epoch, is_offline=True, reason=reason)
        log = self._runtime.directory.logs.get(at)
        if log is None or self._is_being_truncated(at, log):
            return None
        reason = next((one.reason for one in log.damage), "")
        return ReplicaLog(
            generation,
            leader_epoch,
            log.epochs.latest,
            log.end_offset,
            damaged_ranges(log),
            reason=reason,
            is_compacted=log.settings.is_compacted,
        )

    def _is_being_truncated(self, at: TopicPartition, log: PartitionLog) -> bool:
        """Whether a log is about to hold less than it does."""
        fetchers = self._local_replicas.fetchers
        return log.running_job == "truncation" or (fetchers is not None and at in fetchers.truncating)


def damaged_ranges(log: PartitionLog) -> tuple[tuple[int, int], ...]:
    """The offsets of a log that cannot be read."""
    return tuple((one.first_offset, one.next_offset) for one in log.damage)


def parse_topic_id(value: bytes) -> str:
    return str(TopicId(uuid.UUID(bytes=value)))


class _GenerationsJob:
    """Reads the broker epoch in which each log was created."""

    def __init__(self, directory: LogDirectory, partitions: Sequence[TopicPartition]) -> None:
        self._directory = directory
        self._partitions = partitions
        self.generations: dict[TopicPartition, int] = {}

    def run(self) -> None:
        for at in self._partitions:
            self.generations[at] = self._directory.generation_of(at)

    def finish(self) -> None:
        pass
