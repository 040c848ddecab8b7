"""Error responses of the APIs of share groups that have the error in every row."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from qanat.api.request_context import RequestContext
from qanat.wire.kafka.messages import (
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    share_group_describe,
    write_share_group_state,
)
from qanat.wire.kafka.registry import ApiKey


def _describe(request: share_group_describe.ShareGroupDescribeRequest, error: int, context: RequestContext) -> Any:
    rows = [share_group_describe.DescribedGroup(error, None, group) for group in request.group_ids]
    return share_group_describe.ShareGroupDescribeResponse(groups=rows)


def _describe_offsets(
    request: describe_share_group_offsets.DescribeShareGroupOffsetsRequest, error: int, context: RequestContext
) -> Any:
    row = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup
    return describe_share_group_offsets.DescribeShareGroupOffsetsResponse(
        groups=[row(group.group_id, [], error) for group in request.groups]
    )


def _states(module: ModuleType, row: str) -> Callable[[Any, int, RequestContext], Any]:
    """Between brokers: an error for each partition. `row` is the name of a topic's part of the response."""
    response = getattr(module, row.replace("StateResult", "ShareGroupStateResponse"))

    def refuse(request: Any, error: int, context: RequestContext) -> Any:
        return response(
            [
                getattr(module, row)(
                    topic.topic_id, [module.PartitionResult(one.partition, error) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    return refuse


BY_ROWS: dict[ApiKey, Callable[[Any, int, RequestContext], Any]] = {
    ApiKey.SHARE_GROUP_DESCRIBE: _describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_offsets,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _states(initialize_share_group_state, "InitializeStateResult"),
    ApiKey.READ_SHARE_GROUP_STATE: _states(read_share_group_state, "ReadStateResult"),
    ApiKey.WRITE_SHARE_GROUP_STATE: _states(write_share_group_state, "WriteStateResult"),
    ApiKey.DELETE_SHARE_GROUP_STATE: _states(delete_share_group_state, "DeleteStateResult"),
}
