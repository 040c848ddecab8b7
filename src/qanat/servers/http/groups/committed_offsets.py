"""Committed offsets of groups: fetched from and committed to the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.model.error_codes import ErrorCode
from qanat.servers.http.problems import Problem, check, problem_of
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from qanat.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Exchange

NO_MEMBER_EPOCH = -1
Committed = dict[str, dict[int, tuple[int, str]]]
"""By topic and partition: the offset and its metadata."""


async def fetch_committed(exchange: Exchange, group: str) -> Committed:
    """All committed offsets of a group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    response: OffsetFetchResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller, group, ApiKey.OFFSET_FETCH, request, lambda answer: int(answer.groups[0].error_code)
    )
    found = response.groups[0]
    check(found.error_code, f"offsets of group {group}")
    return {
        topic.name: {
            row.partition_index: (row.committed_offset, row.metadata or "")
            for row in topic.partitions
            if not row.error_code and row.committed_offset >= 0
        }
        for topic in found.topics
    }


async def commit(
    exchange: Exchange,
    group: str,
    offsets: Mapping[str, Mapping[int, int]],
    member_id: str = "",
    member_epoch: int = NO_MEMBER_EPOCH,
    note: str = "",
) -> None:
    """Commit offsets, as a member or, for a group without members, without a member id."""
    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(number, offset, committed_metadata=note)
                for number, offset in partitions.items()
            ],
        )
        for name, partitions in offsets.items()
    ]
    request = OffsetCommitRequest(group, member_epoch, member_id, topics=topics)
    response: OffsetCommitResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller, group, ApiKey.OFFSET_COMMIT, request, _first_error
    )
    for topic in response.topics:
        for row in topic.partitions:
            if row.error_code == ErrorCode.UNKNOWN_MEMBER_ID and not member_id:
                raise Problem(
                    409,
                    f"group {group} has members: commit as one of them (member_id, member_epoch), or stop them first",
                    error=ErrorCode.NON_EMPTY_GROUP,
                )
            if row.error_code:
                what = f"group {group} cannot commit to {topic.name} partition {row.partition_index}"
                raise problem_of(row.error_code, what)


def _first_error(response: OffsetCommitResponse) -> int:
    return next((row.error_code for topic in response.topics for row in topic.partitions if row.error_code), 0)
