"""`GET /api/v1/queues/{group}`: a queue with its members, its progress, and records in delivery with their locks."""

from __future__ import annotations

import msgspec

from qanat.api.configs.config_resources import ResourceType
from qanat.api.configs.queue_records import NAME, QueueRun
from qanat.model.errors import QanatError
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.groups.group_description import MemberView
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from qanat.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from qanat.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from qanat.wire.kafka.registry import ApiKey


class QueuePartition(msgspec.Struct):
    """A queue's progress in a partition."""

    topic: str
    partition: int
    start_offset: int | None
    """Everything before it is done; None where no member has begun."""
    lag: int | None
    """Records that are not done."""


class QueueDescription(msgspec.Struct):
    """A queue."""

    group: str
    state: str
    members: list[MemberView]
    partitions: list[QueuePartition]
    lag: int
    held: int
    """Records that members hold."""
    records: list[QueueRun]
    """Records that members hold, that came back, or that are given up just now; equal neighbours together."""


async def describe_queue(exchange: Exchange) -> QueueDescription:
    gateway, caller, group = exchange.context.gateway, exchange.caller, exchange.path["group"]
    described: ShareGroupDescribeResponse = await gateway.call_coordinator(
        caller,
        group,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ShareGroupDescribeRequest([group]),
        lambda answer: int(answer.groups[0].error_code),
    )
    found = described.groups[0]
    check(found.error_code, f"queue {group}", found.error_message)
    members = [
        MemberView(
            one.member_id,
            one.client_id,
            one.client_host.lstrip("/"),
            one.member_epoch,
            {row.topic_name: sorted(row.partitions) for row in one.assignment.topic_partitions},
        )
        for one in found.members
    ]
    partitions = await _partitions(exchange, group)
    records = await _records(exchange, group)
    held = sum(run.last_offset + 1 - run.first_offset for run in records if run.state == "acquired")
    lag = sum(row.lag for row in partitions if row.lag is not None)
    return QueueDescription(group, found.group_state, members, partitions, lag, held, records)


async def _partitions(exchange: Exchange, group: str) -> list[QueuePartition]:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])
    response: DescribeShareGroupOffsetsResponse = await exchange.context.gateway.call_coordinator(
        exchange.caller,
        group,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        request,
        lambda answer: int(answer.groups[0].error_code),
    )
    found = response.groups[0]
    check(found.error_code, f"queue {group}", found.error_message)
    return [
        QueuePartition(
            topic.topic_name,
            row.partition_index,
            row.start_offset if row.start_offset >= 0 else None,
            row.lag if row.lag >= 0 else None,
        )
        for topic in found.topics
        for row in topic.partitions
        if not row.error_code
    ]


async def _records(exchange: Exchange, group: str) -> list[QueueRun]:
    """What every broker knows of its partitions, under the broker's own name: the caller may describe the group."""
    gateway = exchange.context.gateway
    request = DescribeConfigsRequest([DescribeConfigsResource(ResourceType.GROUP, group, [NAME])])
    runs: list[QueueRun] = []
    for node_id in sorted(gateway.broker.metadata.image.brokers):
        try:
            response: DescribeConfigsResponse = await gateway.call(
                gateway.own_caller, ApiKey.DESCRIBE_CONFIGS, request, node_id
            )
        except (Problem, QanatError):
            continue  # It is down: its partitions have another leader in a moment.
        for row in response.results[0].configs:
            if row.name == NAME and row.value is not None:
                runs += msgspec.json.decode(row.value, type=list[QueueRun])
    seen = {topic: gateway.may_describe_topic(exchange.caller, topic) for topic in {run.topic for run in runs}}
    return sorted(
        (run for run in runs if seen[run.topic]), key=lambda run: (run.topic, run.partition, run.first_offset)
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/queues/{group}",
        describe_queue,
        "Describe a queue: members, progress, records in delivery",
        "queues",
        answer=QueueDescription,
    ),
)
