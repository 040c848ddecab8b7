"""What clients lean on without saying so: each rule here broke some client of some broker once."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.clients.capabilities import Client
from tests.clients.conftest import Connect
from tests.servers.kafka import admin_requests
from tests.servers.kafka.raw import RawClient
from tests.testing.clients import SECONDS, produce

from qanat.broker.replicas.partition import Partition
from qanat.log.partition_log import PartitionLog
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.kafka.headers import frame_request, read_response_header
from qanat.wire.kafka.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.messages.produce import ProduceRequest
from qanat.wire.kafka.registry import APIS, ApiKey

# What the clients warn of is theirs to mend.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def frame_of(raw: RawClient, request: bytes) -> bytes:
    raw.send_bytes(request)
    return raw.receive_bytes()


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
    found = {one.name: one for one in admin_requests.describe(raw, topic, synonyms=True).configs}
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


def test_a_transaction_that_may_take_longer_than_the_broker_allows_is_refused(
    broker: EmbeddedBroker, topic: str
) -> None:
    beyond_ms = broker.node.broker.current_settings.transactions.transaction_max_timeout_ms + 1
    options = {"transactional.id": topic, "transaction.timeout.ms": beyond_ms, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
    with pytest.raises(KafkaException, match="INVALID_TRANSACTION_TIMEOUT"):
        producer.init_transactions(SECONDS)


def test_kafka_python_asks_for_a_producer_id_with_its_first_record(broker: EmbeddedBroker, topic: str) -> None:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    broker.create_topic(topic)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send(topic, b"x", partition=0).get(SECONDS)
    producer.close()

    assert list(log_of(broker, topic).producers.states), "it is idempotent by default"


def log_of(broker: EmbeddedBroker, topic: str) -> PartitionLog:
    found = broker.node.broker.lookup.led(topic, 0)
    assert isinstance(found, Partition)
    return found.log


def test_topics_have_ids_because_produce_and_fetch_13_know_no_names(
    raw: RawClient, broker: EmbeddedBroker, topic: str
) -> None:
    """librdkafka would fall back to Fetch 12 where ids are null; Java would not."""
    broker.create_topic(topic)
    produce(broker, topic, b"x")
    (found,) = raw.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=topic)])).topics
    wanted = FetchTopic(topic_id=found.topic_id, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    (by_id,) = raw.ask(ApiKey.FETCH, 13, FetchRequest(topics=[wanted])).responses

    assert found.topic_id != bytes(16)
    assert (by_id.topic_id, read_header(by_id.partitions[0].records).record_count) == (found.topic_id, 1)


EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def offset_of(raw: RawClient, topic: str, timestamp: int, isolation: int) -> int:
    partition = ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, [partition])])
    ((found,),) = [one.partitions for one in raw.ask(ApiKey.LIST_OFFSETS, 7, request).topics]
    assert found.error_code == 0
    return int(found.offset)


def wait_for_offset(raw: RawClient, topic: str, offset: int) -> None:
    """Wait until everything before an offset is decided: markers follow the end of a transaction."""
    deadline = time.monotonic() + SECONDS
    while (found := offset_of(raw, topic, LATEST, READ_COMMITTED)) != offset:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_spark_s_connector_finds_where_committed_records_end_and_which_were_aborted(
    raw: RawClient, broker: EmbeddedBroker, topic: str
) -> None:
    """It plans by ListOffsets under its isolation level, and its Java consumer leaves out what the broker names."""
    broker.create_topic(topic)
    options = {"transactional.id": topic, "log_level": 0, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(SECONDS)
    producer.abort_transaction(SECONDS)
    wait_for_offset(raw, topic, 2)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(SECONDS)

    wanted = FetchTopic(topic, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    asked = FetchRequest(isolation_level=READ_COMMITTED, topics=[wanted])
    ((found,),) = [one.partitions for one in raw.ask(ApiKey.FETCH, 12, asked).responses]
    assert offset_of(raw, topic, EARLIEST, READ_COMMITTED) == 0
    assert offset_of(raw, topic, LATEST, READ_COMMITTED) == found.last_stable_offset == 2
    assert offset_of(raw, topic, LATEST, READ_UNCOMMITTED) == found.high_watermark == 3
    assert offset_of(raw, topic, 1, READ_COMMITTED) == 0
    assert [one.first_offset for one in found.aborted_transactions] == [0]
    assert sum(read_header(batch).record_count for batch in split_batches(found.records)) == 2

    producer.commit_transaction(SECONDS)
    wait_for_offset(raw, topic, 4)
