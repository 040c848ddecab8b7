"""Requests that name one thing each, with the error that refuses them: those beside `test_authorization.REQUESTS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_partition_reassignments,
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    get_replica_log_info,
    initialize_share_group_state,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    metadata,
    produce,
    read_share_group_state,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    txn_offset_commit,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from qanat.wire.kafka.registry import ApiKey

TOPIC, GROUP, TRANSACTION = "secret", "hidden", "covert"
_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_ID = bytes(16)

NEVER_REFUSED = {
    ApiKey.API_VERSIONS: "every client may ask",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "every client may ask what to say of itself",
    ApiKey.PUSH_TELEMETRY: "every client may speak of itself",
    ApiKey.SASL_HANDSHAKE: "every client may authenticate",
    ApiKey.SASL_AUTHENTICATE: "every client may authenticate",
}
LEFT_OUT: dict[ApiKey, tuple[Callable[[int], Any], Callable[[Any], bool], int]] = {
    ApiKey.LIST_GROUPS: (
        lambda version: list_groups.ListGroupsRequest(),
        lambda answer: GROUP in [group.group_id for group in answer.groups],
        99,
    ),
    ApiKey.LIST_TRANSACTIONS: (
        lambda version: list_transactions.ListTransactionsRequest(),
        lambda answer: TRANSACTION in [one.transactional_id for one in answer.transaction_states],
        99,
    ),
    ApiKey.DESCRIBE_CLUSTER: (
        lambda version: describe_cluster.DescribeClusterRequest(True),
        lambda answer: answer.cluster_authorized_operations != 0,
        99,
    ),
    ApiKey.DESCRIBE_LOG_DIRS: (
        lambda version: describe_log_dirs.DescribeLogDirsRequest(None),
        lambda answer: bool(answer.results),
        2,
    ),
}
"""Requests that show less instead of being refused, whether an answer shows it, and the last version of that kind."""


def _produce_by_id(topic_id: bytes) -> Any:
    rows = [produce.PartitionProduceData(0, None)]
    return produce.ProduceRequest(acks=1, topic_data=[produce.TopicProduceData("", topic_id, rows)])


def _fetch_by_id(topic_id: bytes) -> Any:
    return fetch.FetchRequest(topics=[fetch.FetchTopic("", topic_id, [fetch.FetchPartition()])])


def _metadata_by_id(topic_id: bytes) -> Any:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(topic_id, None)], False)


def _delete_by_id(topic_id: bytes) -> Any:
    return delete_topics.DeleteTopicsRequest([], [delete_topics.DeleteTopicState(None, topic_id)], 1000)


BY_ID: dict[ApiKey, tuple[Callable[[bytes], Any], int]] = {
    ApiKey.PRODUCE: (_produce_by_id, 13),
    ApiKey.FETCH: (_fetch_by_id, 13),
    ApiKey.METADATA: (_metadata_by_id, 12),
    ApiKey.DELETE_TOPICS: (_delete_by_id, 6),
}
"""Requests that name a topic by its id, and the first version that can."""


def _add_partitions(version: int) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    if version >= 4:
        transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(TRANSACTION, 1, 0, topics=topics)
        return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


def _txn_commit(version: int) -> Any:
    rows = [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)]
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, rows)]
    return txn_offset_commit.TxnOffsetCommitRequest(TRANSACTION, GROUP, 1, 0, topics=topics)


def _markers(version: int) -> Any:
    topics = [write_txn_markers.WritableTxnMarkerTopic(TOPIC, [0])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(1, 0, True, topics)])


def _state(request: type[Any], data: type[Any], partition: type[Any]) -> Callable[[int], Any]:
    return lambda version: request(GROUP, [data(_ID, [partition(0)])])


ROWS: dict[ApiKey, tuple[Callable[[int], Any], Callable[[int], ErrorCode]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (_add_partitions, lambda version: _CLUSTER if version >= 4 else _TRANSACTION),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        lambda version: add_offsets_to_txn.AddOffsetsToTxnRequest(TRANSACTION, 1, 0, GROUP),
        lambda version: _TRANSACTION,
    ),
    ApiKey.END_TXN: (lambda version: end_txn.EndTxnRequest(TRANSACTION, 1, 0, True), lambda version: _TRANSACTION),
    ApiKey.WRITE_TXN_MARKERS: (_markers, lambda version: _CLUSTER),
    ApiKey.LIST_CONFIG_RESOURCES: (
        lambda version: list_config_resources.ListConfigResourcesRequest([16] if version else []),
        lambda version: _CLUSTER,
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_txn_commit, lambda version: _TRANSACTION),
    ApiKey.DESCRIBE_PRODUCERS: (
        lambda version: describe_producers.DescribeProducersRequest([describe_producers.TopicRequest(TOPIC, [0])]),
        lambda version: _TOPIC,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        lambda version: describe_transactions.DescribeTransactionsRequest([TRANSACTION]),
        lambda version: _TRANSACTION,
    ),
    ApiKey.ELECT_LEADERS: (
        lambda version: elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions(TOPIC, [0])], 1000),
        lambda version: _CLUSTER,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        lambda version: alter_partition_reassignments.AlterPartitionReassignmentsRequest(1000),
        lambda version: _CLUSTER,
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        lambda version: list_partition_reassignments.ListPartitionReassignmentsRequest(1000),
        lambda version: _CLUSTER,
    ),
    ApiKey.UPDATE_FEATURES: (
        lambda version: update_features.UpdateFeaturesRequest(1000, [update_features.FeatureUpdateKey("none", 1)]),
        lambda version: _CLUSTER,
    ),
    ApiKey.GET_REPLICA_LOG_INFO: (
        lambda version: get_replica_log_info.GetReplicaLogInfoRequest(
            0, [get_replica_log_info.TopicPartitions(_ID, [0])]
        ),
        lambda version: _CLUSTER,
    ),
    ApiKey.SHARE_FETCH: (
        lambda version: share_fetch.ShareFetchRequest(GROUP, "m", topics=[share_fetch.FetchTopic(_ID)]),
        lambda version: _GROUP,
    ),
    ApiKey.SHARE_ACKNOWLEDGE: (
        lambda version: share_acknowledge.ShareAcknowledgeRequest(GROUP, "m", 1),
        lambda version: _GROUP,
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (
        _state(
            initialize_share_group_state.InitializeShareGroupStateRequest,
            initialize_share_group_state.InitializeStateData,
            initialize_share_group_state.PartitionData,
        ),
        lambda version: _CLUSTER,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: (
        _state(
            read_share_group_state.ReadShareGroupStateRequest,
            read_share_group_state.ReadStateData,
            read_share_group_state.PartitionData,
        ),
        lambda version: _CLUSTER,
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: (
        _state(
            write_share_group_state.WriteShareGroupStateRequest,
            write_share_group_state.WriteStateData,
            write_share_group_state.PartitionData,
        ),
        lambda version: _CLUSTER,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: (
        _state(
            delete_share_group_state.DeleteShareGroupStateRequest,
            delete_share_group_state.DeleteStateData,
            delete_share_group_state.PartitionData,
        ),
        lambda version: _CLUSTER,
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (
        lambda version: share_group_heartbeat.ShareGroupHeartbeatRequest(GROUP, "m", subscribed_topic_names=[TOPIC]),
        lambda version: _GROUP,
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: (
        lambda version: share_group_describe.ShareGroupDescribeRequest([GROUP]),
        lambda version: _GROUP,
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        lambda version: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            [describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(GROUP)]
        ),
        lambda version: _GROUP,
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        lambda version: alter_share_group_offsets.AlterShareGroupOffsetsRequest(GROUP),
        lambda version: _GROUP,
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        lambda version: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(GROUP),
        lambda version: _GROUP,
    ),
}
"""The request of a version, and what it is refused with."""
