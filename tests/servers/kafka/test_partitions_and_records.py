"""CreatePartitions and DeleteRecords, asked in frames."""

from __future__ import annotations

import pytest
from tests.log.batches import batch
from tests.servers.conftest import RunningBroker
from tests.servers.kafka.admin_requests import create, look, topic
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey


def grow(
    client: RawClient,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    is_dry_run: bool = False,
    timeout_ms: int = 9999,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(list(topics), timeout_ms, is_dry_run)
    results: list[CreatePartitionsTopicResult] = client.ask(ApiKey.CREATE_PARTITIONS, version, request).results
    return results


def to(name: str, count: int, *rows: list[int]) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name, count, [CreatePartitionsAssignment(row) for row in rows] if rows else None)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_more_partitions(client: RawClient, version: int) -> None:
    create(client, topic("orders", 2))
    dry = grow(client, to("orders", 9), version=version, is_dry_run=True)
    results = grow(client, to("orders", 5), version=version)

    assert [(one.name, one.error_code, one.error_message) for one in [*dry, *results]] == [("orders", 0, None)] * 2
    assert len(look(client, "orders")["orders"].partitions) == 5


WRONG = [
    (to("nope", 3), 3, "There is no topic named 'nope'."),
    (to("orders", 2), 37, "Topic already has 2 partition(s)."),
    (to("orders", 1), 37, "The topic orders currently has 2 partition(s); 1 would not be an increase."),
    (to("orders", -1), 37, "would not be an increase."),
    (to("orders", 20_000), 44, "Excessively large number of partitions per request."),
    (to("orders", 4, [1]), 39, "Attempted to add 2 additional partition(s)"),
    (to("orders", 3, [7]), 39, "includes broker 7, but no such broker is registered."),
    (to("__consumer_offsets", 9), 17, "holds the broker's own state"),
]


@pytest.mark.parametrize("version", [0, 3])
def test_what_cannot_be_is_refused(client: RawClient, version: int) -> None:
    create(client, topic("orders", 2), topic("__consumer_offsets"))
    for wish, code, sentence in WRONG:
        (result,) = grow(client, wish, version=version)

        assert result.error_code == code, result
        assert sentence in (result.error_message or "")
    assert len(look(client, "orders")["orders"].partitions) == 2


def test_a_topic_named_twice_is_refused_once(client: RawClient) -> None:
    create(client, topic("orders", 2))
    (result,) = grow(client, to("orders", 3), to("orders", 4))
    (late,) = grow(client, to("orders", 3), timeout_ms=0)

    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT


# Records


def produce(client: RawClient, name: str, count: int) -> None:
    for number in range(count):
        record = PartitionProduceData(0, memoryview(batch([(b"key", b"value %d" % number)])))
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData(name, partition_data=[record])])
        answer = client.ask(ApiKey.PRODUCE, 8, request)
        assert answer.responses[0].partition_responses[0].error_code == 0


def delete_to(client: RawClient, name: str, partition: int, offset: int, version: int = 2) -> tuple[int, int]:
    asked = DeleteRecordsTopic(name, [DeleteRecordsPartition(partition, offset)])
    answer = client.ask(ApiKey.DELETE_RECORDS, version, DeleteRecordsRequest([asked], 10_000))
    (result,) = answer.topics[0].partitions
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_go(broker: RunningBroker, client: RawClient, version: int) -> None:
    create(client, topic("orders"))
    produce(client, "orders", 5)

    assert delete_to(client, "orders", 0, 3, version) == (0, 3)
    assert delete_to(client, "orders", 0, 1, version) == (0, 3)
    assert delete_to(client, "orders", 0, -1, version) == (0, 5)
    assert broker.broker.partitions[TopicPartition("orders", 0)].log.log_start_offset == 5


def test_all_new_starts_of_a_request_are_written_down_at_once(
    broker: RunningBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client, topic("orders"), topic("bills"))
    produce(client, "orders", 3)
    produce(client, "bills", 3)
    runtime, checkpoints = broker.broker.runtime, 0
    write = runtime.checkpoint

    async def counted() -> None:
        nonlocal checkpoints
        checkpoints += 1
        await write()

    monkeypatch.setattr(runtime, "checkpoint", counted)

    asked = [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 2)]) for name in ("orders", "bills")]
    answer = client.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(asked, 10_000))

    rows = [(row.error_code, row.low_watermark) for one in answer.topics for row in one.partitions]
    assert rows == [(0, 2), (0, 2)]
    assert checkpoints == 1


def test_offsets_and_partitions_that_are_not_there_are_refused(client: RawClient) -> None:
    create(client, topic("orders"), topic("keyed", cleanup_policy="compact"), topic("__consumer_offsets"))

    assert delete_to(client, "orders", 0, 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(client, "orders", 0, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(client, "orders", 7, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_to(client, "nope", 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_to(client, "keyed", 0, 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_to(client, "__consumer_offsets", 0, 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
