"""What this broker's own logs hold, as proofs for whoever elects (GetReplicaLogInfo, KIP-966).

Answered from the logs as they are open now. The generation of each log is read from its folder on a worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.log.directories.directory import LogDirectory
from qanat.log.partition_log import PartitionLog
from qanat.model.ids import TopicId, TopicPartition

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

PartitionRef = tuple[str, int]
"""A topic's id and a partition's number."""


class ReplicaLog(Struct, frozen=True):
    """What one log holds."""

    generation: int = 0
    leader_epoch: int = -1
    """The partition's, as far as this broker knows."""
    last_epoch: int = -1
    end_offset: int = -1
    damage: tuple[tuple[int, int], ...] = ()
    is_offline: bool = False
    reason: str = ""
    """Why it is offline, or what is wrong with the first damaged range."""
    is_compacted: bool = False


class ReplicaLogs:
    """Describes the logs of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def describe(self, wanted: Sequence[PartitionRef]) -> Mapping[PartitionRef, ReplicaLog]:
        """What each log holds; nothing is said of those that are not opened or made yet."""
        found = {ref: at for ref in wanted if (at := self._partition(ref)) is not None}
        job = _GenerationsJob(self._broker.runtime.directory, list(found.values()))
        await self._broker.runtime.run_job(job)
        logs = {ref: self._described(ref, at, job.generations.get(at, 0)) for ref, at in found.items()}
        return {ref: log for ref, log in logs.items() if log is not None}

    def _partition(self, ref: PartitionRef) -> TopicPartition | None:
        """The partition, where a log of that very topic lies here."""
        topic = self._broker.metadata.image.topics_by_id.get(TopicId.parse(ref[0]))
        if topic is None or not 0 <= ref[1] < len(topic.partitions):
            return None
        at = TopicPartition(topic.name, ref[1])
        is_this = self._broker.runtime.directory.topic_ids.get(at, "") in ("", topic.topic_id)
        return at if is_this else None

    def _described(self, ref: PartitionRef, at: TopicPartition, generation: int) -> ReplicaLog | None:
        image = self._broker.metadata.image
        topic = image.topics.get(at.topic)
        if topic is None or topic.topic_id != ref[0] or at.partition >= len(topic.partitions):
            return None
        leader_epoch = image.state(topic, at.partition).leader_epoch
        if (reason := self._broker.local_replicas.why_offline(at)) is not None:
            return ReplicaLog(leader_epoch=leader_epoch, is_offline=True, reason=reason)
        log = self._broker.runtime.directory.logs.get(at)
        if log is None or self._is_being_cut(at, log):
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

    def _is_being_cut(self, at: TopicPartition, log: PartitionLog) -> bool:
        """Whether a log is about to hold less than it does."""
        followers = self._broker.local_replicas.followers
        return log.running_job == "truncation" or (followers is not None and at in followers.busy)


def damaged_ranges(log: PartitionLog) -> tuple[tuple[int, int], ...]:
    """The offsets of a log that cannot be read."""
    return tuple((one.first_offset, one.next_offset) for one in log.damage)


def parse_topic_id(value: bytes) -> str:
    return str(TopicId(uuid.UUID(bytes=value)))


class _GenerationsJob:
    """Reads which run of the broker made each log."""

    def __init__(self, directory: LogDirectory, partitions: Sequence[TopicPartition]) -> None:
        self._directory = directory
        self._partitions = partitions
        self.generations: dict[TopicPartition, int] = {}

    def run(self) -> None:
        for at in self._partitions:
            self.generations[at] = self._directory.generation_of(at)

    def finish(self) -> None:
        pass
