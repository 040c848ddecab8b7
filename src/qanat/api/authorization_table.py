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
    ApiKey.PRODUCE: records.authorize_produce,
    ApiKey.FETCH: records.authorize_fetch,
    ApiKey.LIST_OFFSETS: records.authorize_list_offsets,
    ApiKey.METADATA: topics.authorize_metadata,
    ApiKey.OFFSET_COMMIT: groups.authorize_offset_commit,
    ApiKey.OFFSET_FETCH: groups.authorize_offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.authorize_find_coordinator,
    ApiKey.JOIN_GROUP: groups.reads_group(JoinGroupResponse),
    ApiKey.HEARTBEAT: groups.reads_group(HeartbeatResponse),
    ApiKey.LEAVE_GROUP: groups.reads_group(LeaveGroupResponse),
    ApiKey.SYNC_GROUP: groups.reads_group(SyncGroupResponse),
    ApiKey.DESCRIBE_GROUPS: groups.authorize_describe_groups,
    ApiKey.LIST_GROUPS: groups.authorize_list_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.authorize_consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.authorize_describe_consumers,
    ApiKey.SHARE_GROUP_HEARTBEAT: shares.authorize_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: shares.authorize_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: shares.authorize_describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: shares.authorize_alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: shares.authorize_delete_offsets,
    ApiKey.SHARE_FETCH: shared_records.authorize_share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: shared_records.authorize_share_acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: shared_records.authorize_state(initialize_share_group_state, "Initialize"),
    ApiKey.READ_SHARE_GROUP_STATE: shared_records.authorize_state(read_share_group_state, "Read"),
    ApiKey.WRITE_SHARE_GROUP_STATE: shared_records.authorize_state(write_share_group_state, "Write"),
    ApiKey.DELETE_SHARE_GROUP_STATE: shared_records.authorize_state(delete_share_group_state, "Delete"),
    ApiKey.DELETE_GROUPS: groups.authorize_delete_groups,
    ApiKey.OFFSET_DELETE: groups.authorize_offset_delete,
    ApiKey.SASL_HANDSHAKE: cluster.authorize_nothing,
    ApiKey.API_VERSIONS: cluster.authorize_nothing,
    ApiKey.SASL_AUTHENTICATE: cluster.authorize_nothing,
    ApiKey.CREATE_TOPICS: topics.authorize_create_topics,
    ApiKey.DELETE_TOPICS: topics.authorize_delete_topics,
    ApiKey.DELETE_RECORDS: records.authorize_delete_records,
    ApiKey.CREATE_PARTITIONS: topics.authorize_create_partitions,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.authorize_describe_topic_partitions,
    ApiKey.DESCRIBE_CONFIGS: cluster.authorize_describe_configs,
    ApiKey.ALTER_CONFIGS: cluster.alters_configs(AlterConfigsResourceResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: cluster.alters_configs(IncrementalAlterConfigsResourceResponse),
    ApiKey.DESCRIBE_LOG_DIRS: cluster.authorize_describe_log_dirs,
    ApiKey.DESCRIBE_CLUSTER: cluster.authorize_describe_cluster,
    ApiKey.ELECT_LEADERS: cluster.authorize_elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.authorize_alter_reassignments,
    ApiKey.UPDATE_FEATURES: cluster.authorize_update_features,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.authorize_list_reassignments,
    ApiKey.INIT_PRODUCER_ID: cluster.authorize_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: records.authorize_leader_epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.authorize_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.authorize_add_offsets,
    ApiKey.END_TXN: transactions.authorize_end,
    ApiKey.TXN_OFFSET_COMMIT: transactions.authorize_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: records.authorize_write_markers,
    ApiKey.DESCRIBE_PRODUCERS: records.authorize_describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.authorize_describe,
    ApiKey.LIST_TRANSACTIONS: transactions.authorize_list,
    ApiKey.GET_REPLICA_LOG_INFO: cluster.authorize_replica_log_info,
}
