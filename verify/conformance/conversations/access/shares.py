"""Permissions on share groups and their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation
from verify.conformance.users import USERS

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MEMBER = "M" * 21 + "A"


def _fetch_request(group: str, epoch: int, ids: Sequence[bytes]) -> share_fetch.ShareFetchRequest:
    topics = [share_fetch.FetchTopic(one, [share_fetch.FetchPartition(0)]) for one in ids]
    return share_fetch.ShareFetchRequest(group, MEMBER, epoch, max_records=1, batch_size=1, topics=topics)


def _fetch(cast: Cast, version: int) -> Any:
    return [
        ("", _fetch_request(cast.groups[1], 5, cast.ids)),
        ("another group", _fetch_request(cast.groups[2], 5, cast.ids)),
    ]


def _acknowledge(cast: Cast, version: int) -> Any:
    def request(group: str) -> share_acknowledge.ShareAcknowledgeRequest:
        said = [share_acknowledge.AcknowledgementBatch(0, 0, [1])]
        rows = [share_acknowledge.AcknowledgePartition(0, said)]
        topics = [share_acknowledge.AcknowledgeTopic(one, rows) for one in cast.ids]
        return share_acknowledge.ShareAcknowledgeRequest(group, MEMBER, 5, topics=topics)

    return [("", request(cast.groups[1])), ("another group", request(cast.groups[2]))]


def _beat(cast: Cast, version: int) -> Any:
    def request(group: str, *topics: str) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
        return share_group_heartbeat.ShareGroupHeartbeatRequest(group, MEMBER, 5, subscribed_topic_names=list(topics))

    return [
        ("", request(cast.groups[1], cast.topics[0])),
        ("another topic", request(cast.groups[1], cast.topics[2])),
        ("a missing topic", request(cast.groups[1], cast.topics[3])),
        ("another group", request(cast.groups[2], cast.topics[0])),
    ]


def _describe_offsets(cast: Cast, version: int) -> Any:
    topics = [
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(name, [0])
        for name in (cast.topics[0], cast.topics[2])
    ]
    row = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        [row(cast.groups[1], topics), row(cast.groups[2], topics)]
    )


def _alter_offsets(cast: Cast, version: int) -> Any:
    row = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic
    rows = [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)]
    request = alter_share_group_offsets.AlterShareGroupOffsetsRequest
    return [
        ("", request(cast.groups[1], [row(cast.topics[3], rows)])),
        ("another group", request(cast.groups[2], [row(cast.topics[3], rows)])),
    ]


def _delete_offsets(cast: Cast, version: int) -> Any:
    topics = [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(name) for name in cast.topics]
    request = delete_share_group_offsets.DeleteShareGroupOffsetsRequest
    return [("", request(cast.groups[1], topics)), ("another group", request(cast.groups[2], topics))]


def _state(request: type[Any], data: type[Any], partition: type[Any]) -> Make:
    return lambda cast, version: request(cast.groups[1], [data(cast.ids[0], [partition(0)])])


REQUESTS: dict[ApiKey, Make] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: _beat,
    ApiKey.SHARE_GROUP_DESCRIBE: lambda cast, version: share_group_describe.ShareGroupDescribeRequest(
        list(cast.groups), True
    ),
    ApiKey.SHARE_FETCH: _fetch,
    ApiKey.SHARE_ACKNOWLEDGE: _acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _delete_offsets,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _state(
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.InitializeStateData,
        initialize_share_group_state.PartitionData,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _state(
        read_share_group_state.ReadShareGroupStateRequest,
        read_share_group_state.ReadStateData,
        read_share_group_state.PartitionData,
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _state(
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.WriteStateData,
        write_share_group_state.PartitionData,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _state(
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.DeleteStateData,
        delete_share_group_state.PartitionData,
    ),
}


@secured_conversation
def permissions_on_share_groups(play: Play) -> None:
    cast = prepared(play)
    ask_each(play, cast, REQUESTS)
    begin_sessions(play, cast, 1)


def begin_sessions(play: Play, cast: Cast, version: int) -> None:
    """Begin a session as each user, and record which topics are refused; Kafka has errors of its own for the others, as
    long as the group is not there."""
    for user in USERS:
        request = _fetch_request(cast.groups[0], 0, cast.ids[:2])
        answer = play.quietly(ApiKey.SHARE_FETCH, version, request, user)
        answer.responses = [row for row in answer.responses if row.partitions[0].error_code == TOPIC_DENIED]
        play.note(f"ShareFetch v{version} [{user}]: refused of a new session", answer)
