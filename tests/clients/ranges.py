"""Which versions of each API the clients can speak, from their own sources (late 2026): lowest and highest.

Java is kafka-clients 4.x, librdkafka 2.15, kafka-python 3.0, aiokafka 0.14, sarama 1.50. franz-go speaks
everything that Java does, and Spark's connector is Java 3.9.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.wire.kafka.registry import ApiKey

Range = tuple[int, int]


class Ranges(NamedTuple):
    """None where a client does not have the API."""

    java: Range | None
    librdkafka: Range | None
    kafka_python: Range | None
    aiokafka: Range | None
    kafkajs: Range | None
    sarama: Range | None


RANGES = {
    ApiKey.PRODUCE: Ranges((3, 13), (0, 10), (3, 13), (0, 8), (0, 7), (0, 10)),
    ApiKey.FETCH: Ranges((4, 18), (0, 16), (4, 18), (0, 11), (0, 11), (0, 12)),
    ApiKey.LIST_OFFSETS: Ranges((1, 11), (0, 7), (1, 11), (0, 5), (0, 3), (0, 6)),
    ApiKey.METADATA: Ranges((0, 13), (0, 13), (0, 13), (0, 5), (0, 6), (0, 11)),
    ApiKey.OFFSET_COMMIT: Ranges((2, 10), (0, 9), (2, 10), (0, 3), (0, 5), (0, 8)),
    ApiKey.OFFSET_FETCH: Ranges((1, 10), (0, 9), (1, 10), (0, 3), (1, 4), (0, 8)),
    ApiKey.FIND_COORDINATOR: Ranges((0, 6), (0, 2), (0, 6), (0, 1), (0, 2), (0, 3)),
    ApiKey.JOIN_GROUP: Ranges((0, 9), (0, 5), (0, 9), (0, 5), (0, 5), (0, 8)),
    ApiKey.HEARTBEAT: Ranges((0, 4), (0, 3), (0, 4), (0, 1), (0, 3), (0, 4)),
    ApiKey.LEAVE_GROUP: Ranges((0, 5), (0, 1), (0, 5), (0, 1), (0, 3), (0, 5)),
    ApiKey.SYNC_GROUP: Ranges((0, 5), (0, 3), (0, 5), (0, 3), (0, 3), (0, 5)),
    ApiKey.DESCRIBE_GROUPS: Ranges((0, 6), (0, 5), (0, 6), (0, 3), (0, 2), (0, 5)),
    ApiKey.LIST_GROUPS: Ranges((0, 5), (0, 4), (0, 5), (0, 1), (0, 2), (0, 5)),
    ApiKey.SASL_HANDSHAKE: Ranges((0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1)),
    ApiKey.API_VERSIONS: Ranges((0, 4), (0, 3), (0, 4), (0, 2), (0, 2), (0, 4)),
    ApiKey.CREATE_TOPICS: Ranges((2, 7), (0, 4), (2, 7), (0, 3), (0, 3), (0, 7)),
    ApiKey.DELETE_TOPICS: Ranges((1, 6), (0, 4), (1, 6), (0, 3), (0, 1), (0, 6)),
    ApiKey.DELETE_RECORDS: Ranges((0, 2), (0, 2), (0, 2), (0, 2), (0, 1), (0, 2)),
    ApiKey.INIT_PRODUCER_ID: Ranges((0, 5), (0, 4), (0, 6), (0, 0), (0, 1), (0, 4)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Ranges((2, 4), (2, 2), (2, 4), None, None, None),
    ApiKey.ADD_PARTITIONS_TO_TXN: Ranges((0, 3), (0, 0), (0, 5), (0, 0), (0, 1), (0, 3)),
    ApiKey.ADD_OFFSETS_TO_TXN: Ranges((0, 4), (0, 0), (0, 4), (0, 0), (0, 1), (0, 3)),
    ApiKey.END_TXN: Ranges((0, 5), (0, 1), (0, 5), (0, 0), (0, 1), (0, 3)),
    ApiKey.TXN_OFFSET_COMMIT: Ranges((0, 5), (0, 3), (0, 5), (0, 0), (0, 1), (0, 3)),
    ApiKey.DESCRIBE_ACLS: Ranges((1, 3), (0, 2), (1, 3), (0, 2), (0, 1), (0, 2)),
    ApiKey.CREATE_ACLS: Ranges((1, 3), (0, 2), (1, 3), (0, 1), (0, 1), (0, 2)),
    ApiKey.DELETE_ACLS: Ranges((1, 3), (0, 2), (1, 3), (0, 1), (0, 1), (0, 2)),
    ApiKey.DESCRIBE_CONFIGS: Ranges((1, 4), (0, 1), (1, 4), (0, 2), (0, 2), (0, 4)),
    ApiKey.ALTER_CONFIGS: Ranges((0, 2), (0, 2), (0, 2), (0, 1), (0, 1), (0, 2)),
    ApiKey.DESCRIBE_LOG_DIRS: Ranges((1, 5), None, (1, 5), None, None, (0, 4)),
    ApiKey.SASL_AUTHENTICATE: Ranges((0, 2), (0, 1), (0, 2), (0, 1), (0, 1), (0, 2)),
    ApiKey.CREATE_PARTITIONS: Ranges((0, 3), (0, 2), (0, 3), (0, 1), (0, 1), (0, 3)),
    ApiKey.DELETE_GROUPS: Ranges((0, 2), (0, 2), (0, 2), (0, 1), (0, 1), (0, 2)),
    ApiKey.ELECT_LEADERS: Ranges((0, 2), (0, 2), (0, 2), None, None, (0, 2)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Ranges((0, 1), (0, 1), (0, 1), None, None, (0, 1)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Ranges((0, 1), None, (0, 1), (0, 0), (0, 0), (0, 0)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Ranges((0, 0), None, (0, 0), (0, 0), (0, 0), (0, 0)),
    ApiKey.OFFSET_DELETE: Ranges((0, 0), (0, 0), (0, 0), None, None, (0, 0)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Ranges((0, 1), None, (0, 1), (0, 0), None, (0, 1)),
    ApiKey.ALTER_CLIENT_QUOTAS: Ranges((0, 1), None, (0, 1), None, None, (0, 1)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Ranges((0, 0), (0, 0), (0, 0), None, None, (0, 0)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Ranges((0, 0), (0, 0), (0, 0), None, None, (0, 0)),
    ApiKey.DESCRIBE_CLUSTER: Ranges((0, 2), None, (0, 2), None, None, (0, 2)),
    ApiKey.DESCRIBE_PRODUCERS: Ranges((0, 0), None, (0, 0), None, None, (0, 0)),
    ApiKey.DESCRIBE_TRANSACTIONS: Ranges((0, 0), None, (0, 0), None, None, (0, 0)),
    ApiKey.LIST_TRANSACTIONS: Ranges((0, 2), None, (0, 2), None, None, (0, 1)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Ranges((0, 1), (1, 1), None, None, None, None),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Ranges((0, 1), (0, 0), None, None, None, None),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Ranges((0, 0), (0, 0), None, None, None, None),
    ApiKey.PUSH_TELEMETRY: Ranges((0, 0), (0, 0), None, None, None, None),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Ranges((0, 0), None, (0, 0), None, None, None),
    ApiKey.SHARE_GROUP_HEARTBEAT: Ranges((1, 1), (1, 1), None, None, None, None),
    ApiKey.SHARE_GROUP_DESCRIBE: Ranges((1, 1), None, None, None, None, None),
    ApiKey.SHARE_FETCH: Ranges((1, 2), (1, 1), None, None, None, None),
    ApiKey.SHARE_ACKNOWLEDGE: Ranges((1, 2), (1, 1), None, None, None, None),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Ranges((0, 1), None, None, None, None, None),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Ranges((0, 0), None, None, None, None, None),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Ranges((0, 0), None, None, None, None, None),
}
