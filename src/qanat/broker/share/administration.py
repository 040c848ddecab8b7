"""What administrators do to share groups: see how far they are, move them, make them forget, delete them.

The group coordinator knows of which partitions a group keeps a state; how far it is in each is the share
coordinator's to tell. Both are asked here, in the order in which a crash between them does no harm: a state is
forgotten before the group forgets that there was one, and noted before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.broker.replicas.partition import Partition
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.replies import DeleteGroupReply, SharedTopicsReply
from qanat.groups.requests import ChangeSharedTopics, DeleteGroup, ListSharedTopics
from qanat.groups.share.records import SharedTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_OFFSET

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

UNKNOWN_LAG = -1


class Standing(Struct, frozen=True):
    """How far a group is in one partition."""

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG
    """Records that the group has still to do with."""
    error: ErrorCode = ErrorCode.NONE


class Moved(Struct, frozen=True):
    """What became of one partition's new beginning."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ShareAdministration:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def topics(
        self, group_id: str, *, must_be_empty: bool = False, may_be_new: bool = False
    ) -> SharedTopicsReply:
        """Of which partitions a group keeps a state."""
        asked = ListSharedTopics(group_id, must_be_empty, may_be_new)
        reply = await self._broker.groups.ask(group_id, asked)
        assert isinstance(reply, SharedTopicsReply)
        return reply

    async def standings(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[Standing]:
        """How far a group is in partitions of a topic; in those that it has never read, nowhere."""
        known = self._broker.metadata.image.topics.get(topic)
        if known is None:
            return [Standing(number) for number in partitions]
        topic_id = known.identity.value.bytes
        return [await self._standing(group_id, topic, TopicIdPartition(topic_id, number)) for number in partitions]

    async def _standing(self, group_id: str, topic: str, at: TopicIdPartition) -> Standing:
        found = await self._broker.share_partitions.standing(group_id, at)
        if found.error is not ErrorCode.NONE:
            return Standing(at.partition, error=found.error)
        if found.start_offset == NO_OFFSET:
            return Standing(at.partition)
        partition = self._broker.partition(topic, at.partition)
        lag = UNKNOWN_LAG
        if isinstance(partition, Partition) and partition.knows_high_watermark:
            lag = max(partition.log.high_watermark - found.start_offset - found.done_count, 0)
        return Standing(at.partition, found.start_offset, max(found.leader_epoch, 0), lag)

    async def move(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> list[Moved]:
        """Let an empty group begin anew at these offsets; the caller has seen that it is one (`topics`).

        A group that does not exist is founded, without members, by the first offset that can be set.
        """
        known = self._broker.metadata.image.topics.get(topic)
        refused = [self._refusal(topic, number, offset) for number, offset in offsets.items()]
        kept = {number: offset for (number, offset), no in zip(offsets.items(), refused, strict=True) if no is None}
        moved = [no for no in refused if no is not None]
        if known is None or not kept:
            return moved
        topic_id = known.identity.value.bytes
        added = SharedTopic(topic_id, topic, tuple(kept))
        noted = await self._broker.groups.ask(group_id, ChangeSharedTopics(group_id, added=(added,)))
        assert isinstance(noted, SharedTopicsReply)
        for number, offset in kept.items():
            error = noted.error
            if error is ErrorCode.NONE:
                at = TopicIdPartition(topic_id, number)
                error = await self._broker.share_partitions.reset(group_id, at, offset)
            moved.append(Moved(number, error))
        return moved

    def _refusal(self, topic: str, number: int, offset: int) -> Moved | None:
        """Why a group cannot begin there. Where a log ends is known to whoever leads it, and may be somebody else."""
        known = self._broker.metadata.image.topics.get(topic)
        if known is None or not 0 <= number < len(known.partitions):
            return Moved(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self._broker.partition(topic, number)
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
        """Let an empty group forget that it ever read these topics."""
        error = await self._forget_states(group_id, topics)
        if error is not ErrorCode.NONE:
            return error
        asked = ChangeSharedTopics(group_id, removed=tuple(one.topic_id for one in topics))
        reply = await self._broker.groups.ask(group_id, asked)
        assert isinstance(reply, SharedTopicsReply)
        return reply.error

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group of any kind; of a share group, what partitions know of it goes first."""
        known = await self.topics(group_id, must_be_empty=True)
        if known.error is ErrorCode.NONE:
            error = await self._forget_states(group_id, known.topics)
            if error is not ErrorCode.NONE:
                return error
        reply = await self._broker.groups.ask(group_id, DeleteGroup(group_id))
        assert isinstance(reply, DeleteGroupReply)
        return reply.error

    async def _forget_states(self, group_id: str, topics: Iterable[SharedTopic]) -> ErrorCode:
        for topic in topics:
            for number in topic.partitions:
                at = TopicIdPartition(topic.topic_id, number)
                error = await self._broker.share_partitions.forget(group_id, at)
                if error is not ErrorCode.NONE:
                    return error
        return ErrorCode.NONE
