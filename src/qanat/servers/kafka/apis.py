"""Which APIs this broker serves, in which versions, and where each lives: one line per API.

`ApiVersions` and the table in the documentation are made from this. A handler
is imported when its API is first called, so that a broker answers before it
has read the code of everything it can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from qanat.servers.kafka.error_counts import CountErrors, counter_of
from qanat.wire.kafka.registry import APIS, Api, ApiKey

Handler = Callable[[Any, Any], Any]
"""(request, context) -> response, a future of it, or a coroutine (see `connection.Outcome`)."""


@dataclass(frozen=True)
class ServedApi:
    """An API with the versions that are really answered."""

    key: ApiKey
    first_version: int
    last_version: int
    module: str
    advertised_from: int | None = None
    """Where it differs from `first_version`: old librdkafka looks for versions that nobody sends (KAFKA-18659)."""

    @cached_property
    def api(self) -> Api:
        return APIS[self.key]

    @cached_property
    def handle(self) -> Handler:
        handler: Handler = import_module(f"qanat.servers.kafka.{self.module}").handle
        return handler

    @cached_property
    def count_errors(self) -> CountErrors:
        return counter_of(getattr(self.api.codec, f"{self.api.name}Response"))

    @property
    def advertised_first(self) -> int:
        return self.first_version if self.advertised_from is None else self.advertised_from

    def serves(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version


_SERVED = (
    ServedApi(ApiKey.PRODUCE, 3, 13, "produce", advertised_from=0),
    ServedApi(ApiKey.FETCH, 4, 17, "fetch"),
    ServedApi(ApiKey.LIST_OFFSETS, 1, 9, "list_offsets"),
    ServedApi(ApiKey.METADATA, 0, 12, "metadata"),
    ServedApi(ApiKey.OFFSET_COMMIT, 2, 9, "offset_commit"),
    ServedApi(ApiKey.OFFSET_FETCH, 1, 9, "offset_fetch"),
    ServedApi(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator"),
    ServedApi(ApiKey.JOIN_GROUP, 0, 9, "join_group"),
    ServedApi(ApiKey.HEARTBEAT, 0, 4, "heartbeat"),
    ServedApi(ApiKey.LEAVE_GROUP, 0, 5, "leave_group"),
    ServedApi(ApiKey.SYNC_GROUP, 0, 5, "sync_group"),
    ServedApi(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups"),
    ServedApi(ApiKey.LIST_GROUPS, 0, 5, "list_groups"),
    ServedApi(ApiKey.DELETE_GROUPS, 0, 2, "delete_groups"),
    ServedApi(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete"),
    ServedApi(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake"),
    ServedApi(ApiKey.API_VERSIONS, 0, 4, "api_versions"),
    ServedApi(ApiKey.CREATE_TOPICS, 2, 7, "create_topics"),
    ServedApi(ApiKey.DELETE_TOPICS, 1, 6, "delete_topics"),
    ServedApi(ApiKey.DELETE_RECORDS, 0, 2, "delete_records"),
    ServedApi(ApiKey.DESCRIBE_CONFIGS, 1, 4, "describe_configs"),
    ServedApi(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs"),
    ServedApi(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, "describe_log_dirs"),
    ServedApi(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate"),
    ServedApi(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions"),
    ServedApi(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs"),
    ServedApi(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster"),
    ServedApi(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions"),
    ServedApi(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id"),
    ServedApi(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "offset_for_leader_epoch"),
    ServedApi(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "add_partitions_to_txn"),
    ServedApi(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "add_offsets_to_txn"),
    ServedApi(ApiKey.END_TXN, 0, 5, "end_txn"),
    ServedApi(ApiKey.WRITE_TXN_MARKERS, 1, 2, "write_txn_markers"),
    ServedApi(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "txn_offset_commit"),
    ServedApi(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers"),
    ServedApi(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe_transactions"),
    ServedApi(ApiKey.LIST_TRANSACTIONS, 0, 2, "list_transactions"),
    ServedApi(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "consumer_group_heartbeat"),
    ServedApi(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer_group_describe"),
    ServedApi(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders"),
    ServedApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments"),
    ServedApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments"),
    ServedApi(ApiKey.UPDATE_FEATURES, 0, 2, "update_features"),
    ServedApi(ApiKey.SHARE_FETCH, 1, 2, "share_fetch"),
    ServedApi(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, "share_acknowledge"),
    ServedApi(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, "initialize_share_group_state"),
    ServedApi(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, "read_share_group_state"),
    ServedApi(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 0, "write_share_group_state"),
    ServedApi(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, "delete_share_group_state"),
    ServedApi(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, "share_group_heartbeat"),
    ServedApi(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, "share_group_describe"),
    ServedApi(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, "describe_share_group_offsets"),
    ServedApi(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, "alter_share_group_offsets"),
    ServedApi(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, "delete_share_group_offsets"),
    ServedApi(ApiKey.GET_REPLICA_LOG_INFO, 0, 0, "get_replica_log_info"),
)

SERVED: dict[int, ServedApi] = {int(served.key): served for served in _SERVED}
