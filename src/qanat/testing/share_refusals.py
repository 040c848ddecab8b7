"""Refusals of the APIs about share groups whose answers have the error in every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages import describe_share_group_offsets, share_group_describe
from qanat.wire.kafka.registry import ApiKey


def _describe(request: share_group_describe.ShareGroupDescribeRequest, error: int, context: Context) -> Any:
    rows = [share_group_describe.DescribedGroup(error, None, group) for group in request.group_ids]
    return share_group_describe.ShareGroupDescribeResponse(groups=rows)


def _describe_offsets(
    request: describe_share_group_offsets.DescribeShareGroupOffsetsRequest, error: int, context: Context
) -> Any:
    row = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup
    return describe_share_group_offsets.DescribeShareGroupOffsetsResponse(
        groups=[row(group.group_id, [], error) for group in request.groups]
    )


BY_ROWS: dict[ApiKey, Callable[[Any, int, Context], Any]] = {
    ApiKey.SHARE_GROUP_DESCRIBE: _describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_offsets,
}
