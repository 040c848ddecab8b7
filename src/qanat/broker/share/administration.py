"""Administration of share groups: describe their progress, move them, reset topics, delete groups.

The group coordinator knows the partitions in which a group has state; the share coordinator knows the progress in each.
Both are asked here, in the order in which a crash between them does no harm: a state is deleted before the group
forgets that there was one, and the group notes it before it is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from qanat.broker.metadata.image_watcher import ImageWatcher
from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.replies import DeleteGroupReply, SharedTopicsReply
from qanat.groups.requests import ChangeSharedTopics, DeleteGroup, ListSharedTopics
from qanat.groups.share.records import SharedTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_OFFSET

if TYPE_CHECKING:
    from qanat.broker.coordinators.group_coordinator import GroupCoordinator
    from qanat.broker.share.share_partitions import SharePartitions

UNKNOWN_LAG = -1


class ShareProgress(Struct, frozen=True):
    """How far a group is in one partition."""

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG
    """Records that the group has not finished with."""
    error: ErrorCode = ErrorCode.NONE


class Moved(Struct, frozen=True):
    """The outcome of moving a group in one partition."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AdministrationHost(Protocol):
    """What administration needs of a broker; coordinators are made on first use."""

    @property
    def metadata(self) -> ImageWatcher: ...

    @property
    def lookup(self) -> PartitionLookup: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def share_partitions(self) -> SharePartitions: ...


class ShareAdministration:
    """Describes, moves and deletes share groups."""

    def __init__(self, host: AdministrationHost) -> None:
        self._host = host

    async def topics(
        self, group_id: str, *, must_be_empty: bool = False, may_be_new: bool = False
    ) -> SharedTopicsReply:
        """The partitions in which a group has state."""
        request = ListSharedTopics(group_id, must_be_empty, may_be_new)
        reply = await self._host.groups.ask(group_id, request)
        assert isinstance(reply, SharedTopicsReply)
        return reply

    async def progress(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[ShareProgress]:
        """How far a group is in partitions of a topic; without an offset in those that it has never read."""
        known = self._host.metadata.image.topics.get(topic)
        if known is None:
            return [ShareProgress(number) for number in partitions]
        topic_id = known.identity.value.bytes
        return [await self._progress(group_id, topic, TopicIdPartition(topic_id, number)) for number in partitions]

    async def _progress(self, group_id: str, topic: str, at: TopicIdPartition) -> ShareProgress:
        found = await self._host.share_partitions.progress(group_id, at)
        if found.error is not ErrorCode.NONE:
            return ShareProgress(at.partition, error=found.error)
        if found.start_offset == NO_OFFSET:
            return ShareProgress(at.partition)
        partition = self._host.lookup.led(topic, at.partition)
        lag = UNKNOWN_LAG
        if isinstance(partition, Partition) and partition.knows_high_watermark:
            lag = max(partition.log.high_watermark - found.start_offset - found.done_count, 0)
        return ShareProgress(at.partition, found.start_offset, max(found.leader_epoch, 0), lag)

    async def move(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> list[Moved]:
        """Let an empty group start again at these offsets; the caller has checked that it is empty (`topics`).

        A group that does not exist is created, without members, by the first offset that can be set.
        """
        known = self._host.metadata.image.topics.get(topic)
        refused = [self._refusal(topic, number, offset) for number, offset in offsets.items()]
        kept = {number: offset for (number, offset), no in zip(offsets.items(), refused, strict=True) if no is None}
        moved = [no for no in refused if no is not None]
        if known is None or not kept:
            return moved
        topic_id = known.identity.value.bytes
        added = SharedTopic(topic_id, topic, tuple(kept))
        noted = await self._host.groups.ask(group_id, ChangeSharedTopics(group_id, added=(added,)))
        assert isinstance(noted, SharedTopicsReply)
        for number, offset in kept.items():
            error = noted.error
            if error is ErrorCode.NONE:
                at = TopicIdPartition(topic_id, number)
                error = await self._host.share_partitions.reset(group_id, at, offset)
            moved.append(Moved(number, error))
        return moved

    def _refusal(self, topic: str, number: int, offset: int) -> Moved | None:
        """Why a group cannot start there. Only the leader of a partition, perhaps another broker, knows where its log
        ends."""
        known = self._host.metadata.image.topics.get(topic)
        if known is None or not 0 <= number < len(known.partitions):
            return Moved(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self._host.lookup.led(topic, number)
        first, end = 0, offset
        if isinstance(partition, Partition):
            first, end = partition.log.log_start_offset, partition.log.high_watermark
            if offset > end and not partition.knows_high_watermark:
                text = f"The leader of {topic}-{number} has just been elected: ask again."
                return Moved(number, ErrorCode.OFFSET_NOT_AVAILABLE, text)
        if not first <= offset <= end:
            text = f"Offset {offset} is not in the log of {topic}-{number}, which goes from {first} to {end}."
            return Moved(number, ErrorCode.OFFSET_OUT_OF_RANGE, text)
        return None

    async def forget(self, group_id: str, topics: Sequence[SharedTopic]) -> ErrorCode:
        """Delete an empty group's state in these topics."""
        error = await self._forget_states(group_id, topics)
        if error is not ErrorCode.NONE:
            return error
        request = ChangeSharedTopics(group_id, removed=tuple(one.topic_id for one in topics))
        reply = await self._host.groups.ask(group_id, request)
        assert isinstance(reply, SharedTopicsReply)
        return reply.error

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group of any kind; of a share group, its state in partitions goes first."""
        known = await self.topics(group_id, must_be_empty=True)
        if known.error is ErrorCode.NONE:
            error = await self._forget_states(group_id, known.topics)
            if error is not ErrorCode.NONE:
                return error
        reply = await self._host.groups.ask(group_id, DeleteGroup(group_id))
        assert isinstance(reply, DeleteGroupReply)
        return reply.error

    async def _forget_states(self, group_id: str, topics: Iterable[SharedTopic]) -> ErrorCode:
        for topic in topics:
            for number in topic.partitions:
                at = TopicIdPartition(topic.topic_id, number)
                error = await self._host.share_partitions.forget(group_id, at)
                if error is not ErrorCode.NONE:
                    return error
        return ErrorCode.NONE
