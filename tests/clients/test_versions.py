"""The versions that we advertise suit every client, those included that look for one version and no other."""

from __future__ import annotations

import re
import struct
import subprocess

import pytest
from tests.clients.conftest import Connect
from tests.clients.ranges import RANGES, Ranges
from tests.servers.kafka.raw import RawClient
from tests.testing.clients import SECONDS
from tools.toolchains.kcat import have_kcat

from qanat.api.api_table import SERVED
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from qanat.wire.kafka.registry import APIS, ApiKey

# What a client is pinned to: it must be within the versions that we advertise, lowest and highest.
LIBRDKAFKA_PINS = {
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 1),
    ApiKey.LEAVE_GROUP: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 1),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.INIT_PRODUCER_ID: (0, 3),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 0),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 0),
    ApiKey.END_TXN: (0, 1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (1, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_FETCH: (1, 1),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 1),
}
"""KIP-848 needs OffsetCommit and OffsetFetch 9 besides, and a producer that raises its own epoch InitProducerId 3."""
SARAMA_PINS = {
    ApiKey.PRODUCE: (7, 9),
    ApiKey.FETCH: (12, 12),
    ApiKey.INIT_PRODUCER_ID: (4, 4),
    ApiKey.FIND_COORDINATOR: (3, 3),
}
"""What it sends at its default level, which is that of Kafka 2.8."""
FRANZ_PINS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (1, 1),
    ApiKey.ADD_PARTITIONS_TO_TXN: (3, 3),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.SHARE_FETCH: (2, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (2, 2),
}
"""Its KIP-848 wants heartbeats of version 1, its truncation checks epochs from version 2 on; its own tests of share
groups run where both of theirs have version 2."""
JAVA_PINS = {
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
}
"""Without them its share consumers do not begin."""
PINS = [
    pytest.param(key, pin, id=f"{client}-{key.name}")
    for client, pins in (
        ("librdkafka", LIBRDKAFKA_PINS),
        ("sarama", SARAMA_PINS),
        ("franz-go", FRANZ_PINS),
        ("Java", JAVA_PINS),
    )
    for key, pin in pins.items()
]
NOT_FLEXIBLE = {
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 5,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.JOIN_GROUP: 5,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 1,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 1,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: 0,
    ApiKey.ADD_OFFSETS_TO_TXN: 0,
    ApiKey.END_TXN: 0,
    ApiKey.TXN_OFFSET_COMMIT: 0,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}
"""The highest version that both aiokafka and kafkajs know, where they have the API."""
FLOORS = {
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.JOIN_GROUP: 0,
}
"""Where Kafka 4 begins (KIP-896): the level of 2.1. JoinGroup went back to 0 in 4.1 (KAFKA-19444)."""


def advertised(raw: RawClient) -> dict[int, tuple[int, int]]:
    response = raw.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def frame_of(raw: RawClient, request: bytes) -> bytes:
    raw.send_bytes(request)
    return raw.receive_bytes()


def test_api_versions_in_an_unknown_version_is_answered_in_the_oldest(raw: RawClient) -> None:
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0"
    answer = frame_of(raw, struct.pack(">i", len(header)) + header)
    response = APIS[ApiKey.API_VERSIONS].codec.read_response(memoryview(answer), 0, 4)

    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("version", [3, 4])
def test_the_header_of_api_versions_has_no_tags_although_its_body_has(raw: RawClient, version: int) -> None:
    body = APIS[ApiKey.API_VERSIONS].codec.write_request(ApiVersionsRequest("test", "1"), version)
    answer = frame_of(raw, b"".join(frame_request(ApiKey.API_VERSIONS, version, 7, "raw", body)))

    assert struct.unpack(">ihB", answer[:7]) == (7, 0, len(SERVED) + 1)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_tells_the_same(raw: RawClient, version: int) -> None:
    response = raw.ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest("test", "1"))

    assert response.error_code == 0
    assert {row.api_key: (row.min_version, row.max_version) for row in response.api_keys} == advertised(raw)


@pytest.mark.parametrize("client", Ranges._fields)
def test_every_api_that_we_serve_and_a_client_has_is_there_in_a_version_it_speaks(raw: RawClient, client: str) -> None:
    found = advertised(raw)
    strangers = [
        f"{key.name}: we {found[key]}, it {theirs}"
        for key, ranges in RANGES.items()
        if key in found
        and (theirs := getattr(ranges, client)) is not None
        and (found[key][0] > theirs[1] or found[key][1] < theirs[0])
    ]

    assert strangers == []


@pytest.mark.parametrize("key", FLOORS, ids=lambda key: key.name)
def test_versions_begin_where_those_of_kafka_4_do(raw: RawClient, key: ApiKey) -> None:
    assert advertised(raw)[key][0] == FLOORS[key]


def test_a_version_below_the_floor_ends_the_connection(raw: RawClient) -> None:
    header = struct.pack(">hhih", ApiKey.FETCH, 3, 7, -1)
    with pytest.raises((EOFError, ConnectionResetError)):
        frame_of(raw, struct.pack(">i", len(header)) + header)


def test_produce_is_advertised_from_0_and_refused_below_3(raw: RawClient) -> None:
    assert advertised(raw)[ApiKey.PRODUCE][0] == 0
    header = struct.pack(">hhih", ApiKey.PRODUCE, 2, 7, -1)
    with pytest.raises((EOFError, ConnectionResetError)):
        frame_of(raw, struct.pack(">i", len(header)) + header)


def test_the_group_apis_are_advertised_from_0(raw: RawClient) -> None:
    found = advertised(raw)
    keys = (ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)

    assert [found[key][0] for key in keys] == [0] * 5


def test_an_old_librdkafka_finds_every_feature_it_needs(broker: EmbeddedBroker, connect: Connect) -> None:
    """Two it does not find, as with Kafka 4: they look for Fetch 1 and 2 (ThrottleTime, MsgVer1) and are of no use."""
    connect("kcat")
    command = [str(have_kcat()), "-b", broker.bootstrap_servers, "-L", "-X", "debug=feature"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    enabled = set(re.findall(r"Enabling feature (\w+)", done.stderr))

    assert enabled >= {"MsgVer2", "ApiVersion", "BrokerBalancedConsumer", "OffsetTime", "LZ4", "ZSTD"}
    assert "IdempotentProducer" in enabled


@pytest.mark.parametrize(("key", "pin"), PINS)
def test_versions_that_a_client_is_pinned_to_are_served(raw: RawClient, key: ApiKey, pin: tuple[int, int]) -> None:
    first, last = advertised(raw)[key]

    assert first <= pin[0]
    assert last >= pin[1]


@pytest.mark.parametrize("key", NOT_FLEXIBLE, ids=lambda key: key.name)
def test_versions_that_are_not_flexible_are_served_for_aiokafka_and_kafkajs(raw: RawClient, key: ApiKey) -> None:
    first, last = advertised(raw)[key]

    assert first <= NOT_FLEXIBLE[key] <= last
    assert NOT_FLEXIBLE[key] < APIS[key].request_flexible_from


def test_zstd_is_possible_by_the_versions_of_produce_and_fetch(raw: RawClient) -> None:
    found = advertised(raw)

    assert found[ApiKey.PRODUCE][1] >= 7
    assert found[ApiKey.FETCH][1] >= 10


def test_transaction_version_2_is_finalized_and_all_three_apis_that_it_takes_are_there(raw: RawClient) -> None:
    """Java and franz-go rely on the feature, and then use these versions without looking (KIP-890)."""
    response = raw.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("test", "1"))
    found = advertised(raw)

    assert ("transaction.version", 2) in [(one.name, one.max_version_level) for one in response.finalized_features]
    assert found[ApiKey.PRODUCE][1] >= 12
    assert found[ApiKey.END_TXN][1] >= 5
    assert found[ApiKey.TXN_OFFSET_COMMIT][1] >= 5


def test_what_java_asks_before_it_falls_back_to_metadata_is_served(raw: RawClient) -> None:
    found = advertised(raw)

    assert found[ApiKey.DESCRIBE_CLUSTER][1] >= 0
    assert found[ApiKey.DESCRIBE_TOPIC_PARTITIONS][1] >= 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_takes_us_for_one_version_of_kafka(broker: EmbeddedBroker) -> None:
    from kafka import KafkaConsumer  # type: ignore[import-untyped]

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    version = consumer.config["api_version"]
    consumer.close()

    assert version == (4, 1)
