"""Produce names the records that a batch is refused for (KIP-467), to raw requests of any version and to librdkafka."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from tests.servers.conftest import RunningBroker
from tests.servers.kafka.admin_requests import create, topic
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

DAY_MS = 24 * 60 * 60 * 1000
MESSAGES, KEYLESS_EACH = 100, 10


@pytest.fixture
def compacted(client: RawClient) -> str:
    assert not create(client, topic("latest", 1, 1, cleanup_policy="compact"))[0].error_code
    return "latest"


def produce(client: RawClient, version: int, *records: Record) -> Any:
    batch = memoryview(encode_batch(list(records)))
    data = [TopicProduceData("latest", bytes(16), [PartitionProduceData(0, batch)])]
    answer = client.ask(ApiKey.PRODUCE, version, ProduceRequest(None, -1, 10_000, data))
    return answer.responses[0].partition_responses[0]


def end_offset(client: RawClient, name: str) -> int:
    asked = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])]
    return int(client.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, 0, asked)).topics[0].partitions[0].offset)


@pytest.mark.parametrize("version", [7, 8, 12])
def test_records_without_a_key_are_named_from_version_8_on(client: RawClient, compacted: str, version: int) -> None:
    now_ms = int(time.time() * 1000)
    keys = (b"a", None, b"b", None)
    row = produce(client, version, *(Record(place, now_ms, key, b"v") for place, key in enumerate(keys)))
    assert (row.error_code, row.base_offset, row.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)
    is_named = version >= 8
    assert [one.batch_index for one in row.record_errors] == ([1, 3] if is_named else [])
    assert (row.error_message is not None) is is_named
    assert all(one.batch_index_error_message for one in row.record_errors)
    assert end_offset(client, compacted) == 0, "the others are not written either"


def test_records_of_another_century_are_named(client: RawClient, compacted: str) -> None:
    now_ms = int(time.time() * 1000)
    times = (now_ms, now_ms + 40_000 * DAY_MS, now_ms)
    row = produce(client, 9, *(Record(place, at, b"k", b"v") for place, at in enumerate(times)))
    assert (row.error_code, [one.batch_index for one in row.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1])


def delivered(broker: RunningBroker, name: str, **settings: object) -> Counter[int | None]:
    """What becomes of a hundred messages, every tenth of which has no key, sent as one batch where they fit."""
    outcomes: Counter[int | None] = Counter()

    def note(error: KafkaError | None, _: Message) -> None:
        outcomes[error.code() if error else None] += 1

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 1000, "log_level": 0, **settings})
    for number in range(MESSAGES):
        key = None if number % KEYLESS_EACH == 0 else b"key"
        producer.produce(name, b"value", key, partition=0, on_delivery=note)
    assert producer.flush(30) == 0
    return outcomes


def test_librdkafka_separates_bad_messages_from_good_ones(
    broker: RunningBroker, client: RawClient, compacted: str
) -> None:
    outcomes = delivered(broker, compacted)
    assert outcomes == {KafkaError.INVALID_RECORD: 10, KafkaError._INVALID_DIFFERENT_RECORD: 90}
    assert end_offset(client, compacted) == 0


def test_librdkafka_delivers_the_good_messages_where_each_is_a_batch(
    broker: RunningBroker, client: RawClient, compacted: str
) -> None:
    outcomes = delivered(broker, compacted, **{"batch.size": 1})
    assert outcomes == {KafkaError.INVALID_RECORD: 10, None: 90}
    assert end_offset(client, compacted) == 90
