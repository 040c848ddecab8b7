from __future__ import annotations

import time

import pytest
from tests.servers.conftest import RunningBroker, StartBroker
from tests.servers.kafka.admin_requests import create, delete, look, topic
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from qanat.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from qanat.wire.kafka.registry import ApiKey


def delete_by(client: RawClient, *topics: DeleteTopicState) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest([], list(topics), 20_000)
    results: list[DeletableTopicResult] = client.ask(ApiKey.DELETE_TOPICS, 6, request).responses
    return results


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_gone_when_the_answer_comes(client: RawClient, version: int) -> None:
    create(client, topic("orders", 2))
    (result,) = delete(client, "orders", version=version)
    (again,) = delete(client, "orders", version=version)

    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert look(client, "orders")["orders"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (again.error_message is not None) == (version >= 5)


def test_a_topic_is_deleted_by_its_id(client: RawClient) -> None:
    (created,) = create(client, topic("orders"))
    (result,) = delete_by(client, DeleteTopicState(None, created.topic_id))
    (again,) = delete_by(client, DeleteTopicState(None, created.topic_id))

    assert (result.name, result.topic_id, result.error_code) == ("orders", created.topic_id, 0)
    assert (again.name, again.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_what_cannot_be_meant_is_refused(client: RawClient) -> None:
    (created,) = create(client, topic("orders"))
    by_id, by_name = DeleteTopicState(None, created.topic_id), DeleteTopicState("orders")
    cases = [
        ([DeleteTopicState(None)], "Neither topic name nor id were specified."),
        ([DeleteTopicState("orders", created.topic_id)], "You may not specify both topic name and topic id."),
        ([by_id, by_id], "Duplicate topic id."),
        ([by_name, by_name], "Duplicate topic name."),
        ([by_id, by_name], "The provided topic name maps to an ID that was already supplied."),
    ]
    for asked, sentence in cases:
        (result,) = delete_by(client, *asked)

        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, sentence)
    assert look(client, "orders")["orders"].error_code == 0


@pytest.mark.parametrize("version", range(1, 7))
def test_nothing_is_deleted_where_deletion_is_disabled(start_broker: StartBroker, version: int) -> None:
    with RawClient(start_broker(**{"delete.topic.enable": False}).address) as client:
        create(client, topic("orders"))
        (result,) = delete(client, "orders", version=version)

        expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        assert result.error_code == expected
        assert look(client, "orders")["orders"].error_code == 0


def test_internal_topics_stay(client: RawClient) -> None:
    create(client, topic("__consumer_offsets"))
    (result,) = delete(client, "__consumer_offsets")

    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_without_time_nothing_is_begun(client: RawClient) -> None:
    create(client, topic("orders"))
    (result,) = delete(client, "orders", timeout_ms=0)

    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert look(client, "orders")["orders"].error_code == 0


def test_a_topic_made_again_is_another_one(broker: RunningBroker, client: RawClient) -> None:
    seen = set()
    for _ in range(5):
        (created,) = create(client, topic("orders", 2, retention_ms="5"))
        (deleted,) = delete(client, "orders", version=6)
        seen.add(created.topic_id)
        assert (created.error_code, deleted.topic_id) == (0, created.topic_id)
    create(client, topic("orders", 1))
    found = look(client, "orders")["orders"]

    assert len(seen) == 5
    assert found.topic_id not in seen
    assert len(found.partitions) == 1
    assert broker.faults == []


def test_a_fetch_that_waits_for_a_deleted_topic_is_answered_at_once(broker: RunningBroker, client: RawClient) -> None:
    create(client, topic("orders"))
    asked = FetchTopic("orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    with RawClient(broker.address) as reader:
        # The client gives up long before the fetch would.
        reader.send(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1000, topics=[asked]))
        time.sleep(0.1)
        delete(client, "orders")
        response = reader.receive(ApiKey.FETCH, 11)

    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_that_groups_have_committed_go_with_the_topic(client: RawClient) -> None:
    def committed() -> dict[str, int]:
        asked = [OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in ("orders", "payments")]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("readers", topics=asked)])
        (group,) = client.ask(ApiKey.OFFSET_FETCH, 9, request).groups
        return {found.name: found.partitions[0].committed_offset for found in group.topics}

    create(client, topic("orders"), topic("payments"))
    offsets = [OffsetCommitRequestPartition(0, committed_offset=7)]
    request = OffsetCommitRequest(
        "readers", topics=[OffsetCommitRequestTopic(name, partitions=offsets) for name in ("orders", "payments")]
    )
    deadline = time.monotonic() + 30
    while client.ask(ApiKey.OFFSET_COMMIT, 9, request).topics[0].partitions[0].error_code:
        assert time.monotonic() < deadline, "the coordinator never came"
    assert committed() == {"orders": 7, "payments": 7}

    delete(client, "orders")
    create(client, topic("orders"))
    while committed()["orders"] != -1:
        assert time.monotonic() < deadline, "a new topic has the old one's offsets"

    assert committed() == {"orders": -1, "payments": 7}
