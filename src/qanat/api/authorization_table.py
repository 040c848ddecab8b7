"""Which guard belongs to which API."""

from __future__ import annotations

from qanat.api.authorization import AuthorizationRule
from qanat.api.cluster import authorization as cluster
from qanat.api.groups import authorization as groups
from qanat.api.records import authorization as records
from qanat.api.share import group_authorization as shares
from qanat.api.share import record_authorization as shared_records
from qanat.api.topics import authorization as topics
from qanat.api.transactions import authorization as transactions
from qanat.wire.kafka.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)
from qanat.wire.kafka.messages.alter_configs import AlterConfigsResourceResponse
from qanat.wire.kafka.messages.heartbeat import HeartbeatResponse
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from qanat.wire.kafka.messages.join_group import JoinGroupResponse
from qanat.wire.kafka.messages.leave_group import LeaveGroupResponse
from qanat.wire.kafka.messages.sync_group import SyncGroupResponse
from qanat.wire.kafka.registry import ApiKey

AUTHORIZATION_RULES: dict[int, AuthorizationRule] = {
    ApiKey.PRODUCE: records.guard_produce,
    ApiKey.FETCH: records.guard_fetch,
    ApiKey.LIST_OFFSETS: records.guard_list_offsets,
    ApiKey.METADATA: topics.guard_metadata,
    ApiKey.OFFSET_COMMIT: groups.guard_offset_commit,
    ApiKey.OFFSET_FETCH: groups.guard_offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.guard_find_coordinator,
    ApiKey.JOIN_GROUP: groups.reads_group(JoinGroupResponse),
    ApiKey.HEARTBEAT: groups.reads_group(HeartbeatResponse),
    ApiKey.LEAVE_GROUP: groups.reads_group(LeaveGroupResponse),
    ApiKey.SYNC_GROUP: groups.reads_group(SyncGroupResponse),
    ApiKey.DESCRIBE_GROUPS: groups.guard_describe_groups,
    ApiKey.LIST_GROUPS: groups.guard_list_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.guard_consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.guard_describe_consumers,
    ApiKey.SHARE_GROUP_HEARTBEAT: shares.guard_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: shares.guard_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: shares.guard_describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: shares.guard_alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: shares.guard_delete_offsets,
    ApiKey.SHARE_FETCH: shared_records.guard_share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: shared_records.guard_share_acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: shared_records.guard_state(initialize_share_group_state, "Initialize"),
    ApiKey.READ_SHARE_GROUP_STATE: shared_records.guard_state(read_share_group_state, "Read"),
    ApiKey.WRITE_SHARE_GROUP_STATE: shared_records.guard_state(write_share_group_state, "Write"),
    ApiKey.DELETE_SHARE_GROUP_STATE: shared_records.guard_state(delete_share_group_state, "Delete"),
    ApiKey.DELETE_GROUPS: groups.guard_delete_groups,
    ApiKey.OFFSET_DELETE: groups.guard_offset_delete,
    ApiKey.SASL_HANDSHAKE: cluster.guard_nothing,
    ApiKey.API_VERSIONS: cluster.guard_nothing,
    ApiKey.SASL_AUTHENTICATE: cluster.guard_nothing,
    ApiKey.CREATE_TOPICS: topics.guard_create_topics,
    ApiKey.DELETE_TOPICS: topics.guard_delete_topics,
    ApiKey.DELETE_RECORDS: records.guard_delete_records,
    ApiKey.CREATE_PARTITIONS: topics.guard_create_partitions,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.guard_describe_topic_partitions,
    ApiKey.DESCRIBE_CONFIGS: cluster.guard_describe_configs,
    ApiKey.ALTER_CONFIGS: cluster.alters_configs(AlterConfigsResourceResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: cluster.alters_configs(IncrementalAlterConfigsResourceResponse),
    ApiKey.DESCRIBE_LOG_DIRS: cluster.guard_describe_log_dirs,
    ApiKey.DESCRIBE_CLUSTER: cluster.guard_describe_cluster,
    ApiKey.ELECT_LEADERS: cluster.guard_elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.guard_alter_reassignments,
    ApiKey.UPDATE_FEATURES: cluster.guard_update_features,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.guard_list_reassignments,
    ApiKey.INIT_PRODUCER_ID: cluster.guard_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: records.guard_leader_epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.guard_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.guard_add_offsets,
    ApiKey.END_TXN: transactions.guard_end,
    ApiKey.TXN_OFFSET_COMMIT: transactions.guard_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: records.guard_write_markers,
    ApiKey.DESCRIBE_PRODUCERS: records.guard_describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.guard_describe,
    ApiKey.LIST_TRANSACTIONS: transactions.guard_list,
    ApiKey.GET_REPLICA_LOG_INFO: cluster.guard_replica_log_info,
}
