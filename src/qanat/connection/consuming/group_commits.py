"""Offsets committed by a member of a group, in either protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qanat.connection.consuming.coordinator import Coordinator
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from qanat.wire.kafka.registry import ApiKey

ABOUT_TOPIC = "topic "
"""Begins the metadata of a push subscriber's commit. The id of the topic follows: another may have its name later."""


class Identity(NamedTuple):
    """Who commits: a generation in the classic protocol, the member's epoch in that of KIP-848."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """An offset to commit; the leader epoch of the record before it finds a truncation later (KIP-320)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


async def commit_as_member(
    coordinator: Coordinator, who: Identity, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline
) -> None:
    """Send once; raises `RefusedError` with the first code that is no success."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for at, (offset, epoch, metadata) in offsets.items():
        topics.setdefault(at.topic, []).append(OffsetCommitRequestPartition(at.partition, offset, epoch, metadata))
    wanted = [OffsetCommitRequestTopic(name, partitions=partitions) for name, partitions in topics.items()]
    request = OffsetCommitRequest(
        coordinator.group, who.epoch, who.member_id, group_instance_id=who.instance_id, topics=wanted
    )
    response: OffsetCommitResponse = await coordinator.call(ApiKey.OFFSET_COMMIT, request, deadline)
    for topic in response.topics:
        for partition in topic.partitions:
            coordinator.note(partition.error_code)
            check(f"group {coordinator.group} cannot commit to {topic.name}", partition.error_code)
