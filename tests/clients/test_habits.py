"""What clients lean on without saying so: each rule here broke some client of some broker once."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.clients.capabilities import Client
from tests.clients.conftest import Connect
from tests.servers.kafka import asking
from tests.servers.kafka.raw import RawClient
from tests.testing.clients import SECONDS, produce

from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.apis import SERVED
from qanat.testing import EmbeddedBroker
from qanat.wire.batch_header import read_header
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from qanat.wire.kafka.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.messages.produce import ProduceRequest
from qanat.wire.kafka.registry import APIS, ApiKey

# What must be within the versions that we advertise, from the clients' own sources: lowest and highest.
LIBRDKAFKA_PINS = {
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 1),
    ApiKey.LEAVE_GROUP: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 1),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.INIT_PRODUCER_ID: (0, 3),
}
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
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}
"""The highest version that both aiokafka and kafkajs know, where they have the API."""


@pytest.fixture
def raw(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


def advertised(raw: RawClient) -> dict[int, tuple[int, int]]:
    response = raw.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def frame_of(raw: RawClient, request: bytes) -> bytes:
    raw._socket.sendall(request)
    (size,) = struct.unpack(">i", raw._exactly(4))
    return raw._exactly(size)


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
    command = ["kcat", "-b", broker.bootstrap_servers, "-L", "-X", "debug=feature"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    enabled = set(re.findall(r"Enabling feature (\w+)", done.stderr))

    assert enabled >= {"MsgVer2", "ApiVersion", "BrokerBalancedConsumer", "OffsetTime", "LZ4", "ZSTD"}
    assert "IdempotentProducer" in enabled


@pytest.mark.parametrize("key", LIBRDKAFKA_PINS, ids=lambda key: key.name)
def test_versions_that_librdkafka_is_pinned_to_are_served(raw: RawClient, key: ApiKey) -> None:
    lowest, highest = LIBRDKAFKA_PINS[key]
    first, last = advertised(raw)[key]

    assert first <= lowest
    assert last >= highest


@pytest.mark.parametrize("key", NOT_FLEXIBLE, ids=lambda key: key.name)
def test_versions_that_are_not_flexible_are_served_for_aiokafka_and_kafkajs(raw: RawClient, key: ApiKey) -> None:
    first, last = advertised(raw)[key]

    assert first <= NOT_FLEXIBLE[key] <= last


def test_zstd_is_possible_by_the_versions_of_produce_and_fetch(raw: RawClient) -> None:
    found = advertised(raw)

    assert found[ApiKey.PRODUCE][1] >= 7
    assert found[ApiKey.FETCH][1] >= 10


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_takes_us_for_one_version_of_kafka(broker: EmbeddedBroker) -> None:
    from kafka import KafkaConsumer  # type: ignore[import-untyped]

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    version = consumer.config["api_version"]
    consumer.close()

    assert version == (4, 1)


def test_a_topic_that_is_made_on_first_use_has_four_partitions(raw: RawClient, topic: str) -> None:
    (found,) = raw.ask(ApiKey.METADATA, 4, MetadataRequest([MetadataRequestTopic(name=topic)])).topics

    assert (found.error_code, len(found.partitions)) == (0, 4)


def test_a_fetch_into_the_middle_of_a_batch_gets_the_whole_batch(
    raw: RawClient, broker: EmbeddedBroker, topic: str
) -> None:
    broker.create_topic(topic)
    produce(broker, topic, b"a", b"b", b"c", **{"linger.ms": 50})
    request = FetchRequest(
        max_wait_ms=0, topics=[FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=1, partition_max_bytes=1)])]
    )
    ((partition,),) = [found.partitions for found in raw.ask(ApiKey.FETCH, 11, request).responses]
    header = read_header(partition.records)

    assert (header.base_offset, header.record_count) == (0, 3)
    assert len(partition.records) == header.size


def refused_with(broker: EmbeddedBroker, topic: str, value: bytes) -> str:
    """The name that librdkafka has for why it could not deliver."""
    faults: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value, on_delivery=lambda fault, _: faults.append(fault.name() if fault else "delivered"))
    producer.flush(SECONDS)
    (found,) = faults
    return found


def test_a_batch_beyond_max_message_bytes_is_refused(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, configs={"max.message.bytes": 200})

    assert refused_with(broker, topic, b"x" * 50) == "delivered"
    assert refused_with(broker, topic, b"x" * 500) == "MSG_SIZE_TOO_LARGE"


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, configs={"cleanup.policy": "compact"})

    assert refused_with(broker, topic, b"x") == "INVALID_RECORD"


def test_a_note_comes_back_with_its_committed_offset(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    options = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "log_level": 0}
    consumer = Consumer(options)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7, "a note, ünicode")], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    consumer.close()

    assert (found.offset, found.metadata) == (7, "a note, ünicode")


def test_a_note_that_is_too_long_is_refused(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "log_level": 0})
    with pytest.raises(KafkaException, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.commit(offsets=[TopicPartition(topic, 0, 7, "x" * 5000)], asynchronous=False)
    consumer.close()


def test_settings_are_described_with_defaults_and_synonyms(raw: RawClient, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, configs={"retention.ms": 1000})
    found = {one.name: one for one in asking.describe(raw, topic, synonyms=True).configs}
    of_topic, by_default = 1, 5

    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1000", of_topic)
    assert [one.source for one in found["retention.ms"].synonyms] == [of_topic, by_default]
    assert found["cleanup.policy"].config_source == by_default
    assert found["cleanup.policy"].synonyms[-1].name == "log.cleanup.policy"


def test_every_topic_that_is_to_grow_has_its_row(raw: RawClient, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    asked = [CreatePartitionsTopic(topic, 3, None), CreatePartitionsTopic("unknown-topic", 3, None)]
    results = raw.ask(ApiKey.CREATE_PARTITIONS, 1, CreatePartitionsRequest(asked, 10_000)).results

    assert {row.name: row.error_code for row in results} == {
        topic: 0,
        "unknown-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_the_three_bytes_that_librdkafka_sends_too_many_are_let_pass(raw: RawClient) -> None:
    """It does so when it asks for all topics in a flexible version."""
    body = APIS[ApiKey.METADATA].codec.write_request(MetadataRequest(None), 12)
    answer = memoryview(frame_of(raw, b"".join(frame_request(ApiKey.METADATA, 12, 7, "raw", [*body, b"\0\0\0"]))))
    _, position = read_response_header(answer, ApiKey.METADATA, 12)

    assert APIS[ApiKey.METADATA].codec.read_response(answer, 12, position).brokers


def test_an_unanswered_produce_that_fails_ends_the_connection(raw: RawClient) -> None:
    from qanat.wire.kafka.messages.produce import PartitionProduceData, TopicProduceData

    data = TopicProduceData("no-such-topic", partition_data=[PartitionProduceData(0, memoryview(b"x"))])
    raw.send(ApiKey.PRODUCE, 7, ProduceRequest(acks=0, topic_data=[data]))
    with pytest.raises((EOFError, ConnectionResetError)):
        raw._exactly(1)


def test_clients_that_come_from_pypi_are_here(connect: Connect) -> None:
    found: list[Client] = [connect(name) for name in ("confluent-kafka", "kafka-python", "aiokafka")]

    assert len(found) == 3
