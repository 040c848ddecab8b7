"""Error responses: for each API, a response with nothing but an error, in each of the request's rows.

Where one version has the error at the top and another has it in every row, both are set: the
codec writes what the version has.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from qanat.api.cluster.get_replica_log_info import refused
from qanat.api.request_context import RequestContext
from qanat.api.topics.metadata import response as metadata_response
from qanat.model.error_codes import ErrorCode
from qanat.testing import security_error_responses, share_error_responses, transaction_error_responses
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages import (
    alter_configs,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from qanat.wire.kafka.registry import APIS, ApiKey


def error_response(key: ApiKey, request: Any, context: RequestContext, error: ErrorCode) -> Any:
    """A response that refuses everything in the request; raises `ValueError` where the API has no field for it."""
    if key in _BY_ROWS:
        return _BY_ROWS[key](request, int(error), context)
    api = APIS[key]
    module = import_module(f"qanat.wire.kafka.messages.{api.module}")
    return getattr(module, f"{api.name}Response")(error_code=int(error))


def _produce(request: produce.ProduceRequest, error: int, context: RequestContext) -> produce.ProduceResponse | None:
    def rows(topic: produce.TopicProduceData) -> list[produce.PartitionProduceResponse]:
        return [produce.PartitionProduceResponse(row.index, error, base_offset=-1) for row in topic.partition_data]

    if request.acks == 0:
        context.caller.close()  # As in Kafka: a producer with acks=0 learns of an error by a closed connection.
        return None
    topics = [produce.TopicProduceResponse(topic.name, topic.topic_id, rows(topic)) for topic in request.topic_data]
    return produce.ProduceResponse(topics)


def _fetch(request: fetch.FetchRequest, error: int, context: RequestContext) -> fetch.FetchResponse:
    """By partition where some are named: a top-level error is for broken sessions only."""
    topics = [
        fetch.FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [fetch.PartitionData(row.partition, error, high_watermark=-1) for row in topic.partitions],
        )
        for topic in request.topics
    ]
    return fetch.FetchResponse(error_code=0 if topics else error, responses=topics)


def _list_offsets(request: list_offsets.ListOffsetsRequest, error: int, context: RequestContext) -> Any:
    row, topic_row = list_offsets.ListOffsetsPartitionResponse, list_offsets.ListOffsetsTopicResponse
    return list_offsets.ListOffsetsResponse(
        topics=[
            topic_row(topic.name, [row(one.partition_index, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _metadata(request: metadata.MetadataRequest, error: int, context: RequestContext) -> metadata.MetadataResponse:
    """The real brokers, so that the client can retry; every requested topic with the error."""
    names: list[tuple[str | None, bytes]] = [(topic.name, topic.topic_id) for topic in request.topics or []]
    if not names:
        names = [(name, ZERO_UUID) for name in context.broker.metadata.image.topics]
    topics = [metadata.MetadataResponseTopic(error, name, topic_id) for name, topic_id in names]
    response = metadata_response(context.broker, context.caller, topics)
    response.error_code = error
    return response


def _offset_commit(request: offset_commit.OffsetCommitRequest, error: int, context: RequestContext) -> Any:
    row, topic_row = offset_commit.OffsetCommitResponsePartition, offset_commit.OffsetCommitResponseTopic
    return offset_commit.OffsetCommitResponse(
        topics=[
            topic_row(topic.name, topic.topic_id, [row(one.partition_index, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _offset_fetch(request: offset_fetch.OffsetFetchRequest, error: int, context: RequestContext) -> Any:
    row, topic_row = offset_fetch.OffsetFetchResponsePartition, offset_fetch.OffsetFetchResponseTopic
    topics = [
        topic_row(topic.name, [row(number, -1, error_code=error) for number in topic.partition_indexes])
        for topic in request.topics or []
    ]
    groups = [offset_fetch.OffsetFetchResponseGroup(group.group_id, [], error) for group in request.groups]
    return offset_fetch.OffsetFetchResponse(0, topics, error, groups)


def _find_coordinator(request: find_coordinator.FindCoordinatorRequest, error: int, context: RequestContext) -> Any:
    rows = [find_coordinator.Coordinator(key, -1, "", -1, error, None) for key in request.coordinator_keys]
    return find_coordinator.FindCoordinatorResponse(0, error, None, -1, "", -1, rows)


def _leave_group(request: leave_group.LeaveGroupRequest, error: int, context: RequestContext) -> Any:
    rows = [leave_group.MemberResponse(one.member_id, one.group_instance_id, error) for one in request.members]
    return leave_group.LeaveGroupResponse(error_code=error, members=rows)


def _create_topics(request: create_topics.CreateTopicsRequest, error: int, context: RequestContext) -> Any:
    row = create_topics.CreatableTopicResult
    return create_topics.CreateTopicsResponse(
        topics=[row(topic.name, error_code=error, error_message=None) for topic in request.topics]
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, error: int, context: RequestContext) -> Any:
    row = delete_topics.DeletableTopicResult
    named = [row(name, error_code=error) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(
        responses=named + [row(topic.name, topic.topic_id, error) for topic in request.topics]
    )


def _delete_records(request: delete_records.DeleteRecordsRequest, error: int, context: RequestContext) -> Any:
    row, topic_row = delete_records.DeleteRecordsPartitionResult, delete_records.DeleteRecordsTopicResult
    return delete_records.DeleteRecordsResponse(
        topics=[
            topic_row(topic.name, [row(one.partition_index, -1, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _offset_for_leader_epoch(request: Any, error: int, context: RequestContext) -> Any:
    row, topic_row = offset_for_leader_epoch.EpochEndOffset, offset_for_leader_epoch.OffsetForLeaderTopicResult
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=[
            topic_row(topic.topic, [row(error, one.partition) for one in topic.partitions]) for topic in request.topics
        ]
    )


def _describe_groups(request: describe_groups.DescribeGroupsRequest, error: int, context: RequestContext) -> Any:
    rows = [describe_groups.DescribedGroup(error, None, group) for group in request.groups]
    return describe_groups.DescribeGroupsResponse(groups=rows)


def _describe_consumers(
    request: consumer_group_describe.ConsumerGroupDescribeRequest, error: int, context: RequestContext
) -> Any:
    rows = [consumer_group_describe.DescribedGroup(error, None, group) for group in request.group_ids]
    return consumer_group_describe.ConsumerGroupDescribeResponse(groups=rows)


def _delete_groups(request: delete_groups.DeleteGroupsRequest, error: int, context: RequestContext) -> Any:
    rows = [delete_groups.DeletableGroupResult(group, error) for group in request.groups_names]
    return delete_groups.DeleteGroupsResponse(results=rows)


def _create_partitions(request: create_partitions.CreatePartitionsRequest, error: int, context: RequestContext) -> Any:
    rows = [create_partitions.CreatePartitionsTopicResult(topic.name, error) for topic in request.topics]
    return create_partitions.CreatePartitionsResponse(results=rows)


def _describe_configs(request: describe_configs.DescribeConfigsRequest, error: int, context: RequestContext) -> Any:
    row = describe_configs.DescribeConfigsResult
    return describe_configs.DescribeConfigsResponse(
        results=[row(error, None, one.resource_type, one.resource_name, []) for one in request.resources]
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: int, context: RequestContext) -> Any:
    row = alter_configs.AlterConfigsResourceResponse
    return alter_configs.AlterConfigsResponse(
        responses=[row(error, None, one.resource_type, one.resource_name) for one in request.resources]
    )


def _incremental_alter_configs(request: Any, error: int, context: RequestContext) -> Any:
    row = incremental_alter_configs.AlterConfigsResourceResponse
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[row(error, None, one.resource_type, one.resource_name) for one in request.resources]
    )


def _describe_topic_partitions(request: Any, error: int, context: RequestContext) -> Any:
    rows = [describe_topic_partitions.DescribeTopicPartitionsResponseTopic(error, one.name) for one in request.topics]
    return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=rows)


_BY_ROWS: dict[ApiKey, Callable[[Any, int, RequestContext], Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumers,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.GET_REPLICA_LOG_INFO: lambda request, error, context: refused(request, error),
    **transaction_error_responses.BY_ROWS,
    **share_error_responses.BY_ROWS,
    **security_error_responses.BY_ROWS,
}
