"""The table of served APIs: versions and module of each, one line per API.

`ApiVersions` and the table in the documentation come from it. A module is imported with the first request of its API.
The two SASL APIs belong to the Kafka server: they need the connection itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from qanat.api.error_counts import CountErrors, counter_of
from qanat.wire.kafka.registry import APIS, Api, ApiKey

if TYPE_CHECKING:
    from qanat.api.authorization import AuthorizationRule, Recheck
    from qanat.api.permissions import Permissions

Handler = Callable[[Any, Any], Any]
"""(request, context) -> response, a future of it, or a coroutine (see `servers.kafka.connection.Outcome`)."""


@dataclass(frozen=True)
class ServedApi:
    """An API with the versions that are served."""

    key: ApiKey
    first_version: int
    last_version: int
    module: str
    advertised_from: int | None = None
    """Where it differs from `first_version`: old librdkafka checks for versions that no client sends (KAFKA-18659)."""

    @cached_property
    def api(self) -> Api:
        return APIS[self.key]

    @cached_property
    def handle(self) -> Handler:
        handler: Handler = import_module(f"qanat.{self.module}").handle
        return handler

    @cached_property
    def authorize(self) -> AuthorizationRule | None:
        """The API's authorization rule; None where its module has none, and the API is refused."""
        rule: AuthorizationRule | None = getattr(import_module(f"qanat.{self.module}"), "authorize", None)
        return rule

    @cached_property
    def is_known_allowed(self) -> Callable[[Any, Permissions], bool] | None:
        """Whether kept answers of the authorizer allow a request; None for an API that is always asked about."""
        known: Callable[[Any, Permissions], bool] | None
        known = getattr(import_module(f"qanat.{self.module}"), "is_known_allowed", None)
        return known

    @cached_property
    def recheck(self) -> Recheck | None:
        """Checks a response that waited for records; None for an API that does not wait for them."""
        recheck: Recheck | None = getattr(import_module(f"qanat.{self.module}"), "recheck", None)
        return recheck

    @cached_property
    def count_errors(self) -> CountErrors:
        return counter_of(getattr(self.api.codec, f"{self.api.name}Response"))

    @property
    def advertised_first(self) -> int:
        return self.first_version if self.advertised_from is None else self.advertised_from

    def serves(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version


_SERVED = (
    ServedApi(ApiKey.PRODUCE, 3, 13, "api.records.produce", advertised_from=0),
    ServedApi(ApiKey.FETCH, 4, 17, "api.records.fetch"),
    ServedApi(ApiKey.LIST_OFFSETS, 1, 9, "api.records.list_offsets"),
    ServedApi(ApiKey.METADATA, 0, 12, "api.topics.metadata"),
    ServedApi(ApiKey.OFFSET_COMMIT, 2, 9, "api.groups.offset_commit"),
    ServedApi(ApiKey.OFFSET_FETCH, 1, 9, "api.groups.offset_fetch"),
    ServedApi(ApiKey.FIND_COORDINATOR, 0, 6, "api.groups.find_coordinator"),
    ServedApi(ApiKey.JOIN_GROUP, 0, 9, "api.groups.join_group"),
    ServedApi(ApiKey.HEARTBEAT, 0, 4, "api.groups.heartbeat"),
    ServedApi(ApiKey.LEAVE_GROUP, 0, 5, "api.groups.leave_group"),
    ServedApi(ApiKey.SYNC_GROUP, 0, 5, "api.groups.sync_group"),
    ServedApi(ApiKey.DESCRIBE_GROUPS, 0, 6, "api.groups.describe_groups"),
    ServedApi(ApiKey.LIST_GROUPS, 0, 5, "api.groups.list_groups"),
    ServedApi(ApiKey.DELETE_GROUPS, 0, 2, "api.groups.delete_groups"),
    ServedApi(ApiKey.OFFSET_DELETE, 0, 0, "api.groups.offset_delete"),
    ServedApi(ApiKey.SASL_HANDSHAKE, 0, 1, "servers.kafka.sasl_handshake"),
    ServedApi(ApiKey.API_VERSIONS, 0, 4, "api.cluster.api_versions"),
    ServedApi(ApiKey.CREATE_TOPICS, 2, 7, "api.topics.create_topics"),
    ServedApi(ApiKey.DELETE_TOPICS, 1, 6, "api.topics.delete_topics"),
    ServedApi(ApiKey.DELETE_RECORDS, 0, 2, "api.records.delete_records"),
    ServedApi(ApiKey.DESCRIBE_CONFIGS, 1, 4, "api.configs.describe_configs"),
    ServedApi(ApiKey.ALTER_CONFIGS, 0, 2, "api.configs.alter_configs"),
    ServedApi(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, "api.cluster.describe_log_dirs"),
    ServedApi(ApiKey.SASL_AUTHENTICATE, 0, 2, "servers.kafka.sasl_authenticate"),
    ServedApi(ApiKey.CREATE_PARTITIONS, 0, 3, "api.topics.create_partitions"),
    ServedApi(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "api.configs.incremental_alter_configs"),
    ServedApi(ApiKey.DESCRIBE_CLUSTER, 0, 2, "api.cluster.describe_cluster"),
    ServedApi(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "api.topics.describe_topic_partitions"),
    ServedApi(ApiKey.INIT_PRODUCER_ID, 0, 5, "api.transactions.init_producer_id"),
    ServedApi(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "api.records.offset_for_leader_epoch"),
    ServedApi(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "api.transactions.add_partitions_to_txn"),
    ServedApi(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "api.transactions.add_offsets_to_txn"),
    ServedApi(ApiKey.END_TXN, 0, 5, "api.transactions.end_txn"),
    ServedApi(ApiKey.WRITE_TXN_MARKERS, 1, 2, "api.transactions.write_txn_markers"),
    ServedApi(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "api.transactions.txn_offset_commit"),
    ServedApi(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "api.records.describe_producers"),
    ServedApi(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "api.transactions.describe_transactions"),
    ServedApi(ApiKey.LIST_TRANSACTIONS, 0, 2, "api.transactions.list_transactions"),
    ServedApi(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "api.groups.consumer_group_heartbeat"),
    ServedApi(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "api.groups.consumer_group_describe"),
    ServedApi(ApiKey.ELECT_LEADERS, 0, 2, "api.cluster.elect_leaders"),
    ServedApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "api.cluster.alter_partition_reassignments"),
    ServedApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "api.cluster.list_partition_reassignments"),
    ServedApi(ApiKey.UPDATE_FEATURES, 0, 2, "api.cluster.update_features"),
    ServedApi(ApiKey.SHARE_FETCH, 1, 2, "api.share.share_fetch"),
    ServedApi(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, "api.share.share_acknowledge"),
    ServedApi(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, "api.share.initialize_share_group_state"),
    ServedApi(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, "api.share.read_share_group_state"),
    ServedApi(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 0, "api.share.write_share_group_state"),
    ServedApi(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, "api.share.delete_share_group_state"),
    ServedApi(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, "api.share.share_group_heartbeat"),
    ServedApi(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, "api.share.share_group_describe"),
    ServedApi(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, "api.share.describe_share_group_offsets"),
    ServedApi(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, "api.share.alter_share_group_offsets"),
    ServedApi(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, "api.share.delete_share_group_offsets"),
    ServedApi(ApiKey.DESCRIBE_ACLS, 1, 3, "api.security.describe_acls"),
    ServedApi(ApiKey.CREATE_ACLS, 1, 3, "api.security.create_acls"),
    ServedApi(ApiKey.DELETE_ACLS, 1, 3, "api.security.delete_acls"),
    ServedApi(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "api.security.describe_user_scram_credentials"),
    ServedApi(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "api.security.alter_user_scram_credentials"),
    ServedApi(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, "api.client_metrics.get_telemetry_subscriptions"),
    ServedApi(ApiKey.PUSH_TELEMETRY, 0, 0, "api.client_metrics.push_telemetry"),
    ServedApi(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "api.configs.list_config_resources"),
    ServedApi(ApiKey.GET_REPLICA_LOG_INFO, 0, 0, "api.cluster.get_replica_log_info"),
)

SERVED: dict[int, ServedApi] = {int(served.key): served for served in _SERVED}
