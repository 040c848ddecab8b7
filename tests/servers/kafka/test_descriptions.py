"""DescribeCluster, DescribeLogDirs, DescribeTopicPartitions and the two of SASL, asked in frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.conftest import CLUSTER_ID, RunningBroker, StartBroker
from tests.servers.kafka.admin_requests import create, topic
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from qanat.wire.kafka.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from qanat.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(broker: RunningBroker, client: RawClient, version: int) -> None:
    answer = client.ask(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest())
    described = client.ask(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(True))

    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, 1)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", broker.port)]
    assert (answer.cluster_authorized_operations, described.cluster_authorized_operations) == (NOT_ASKED, 8096)


def test_a_broker_that_must_register_again_still_names_itself(broker: RunningBroker, client: RawClient) -> None:
    async def forget() -> None:
        broker.broker.metadata.image.brokers.clear()

    broker.call(forget())

    answer = client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", broker.port)]


def test_controllers_are_not_reached_here(client: RawClient) -> None:
    codes = [client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(False, kind)).error_code for kind in (2, 3)]

    assert codes == [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


@pytest.mark.parametrize("version", range(1, 5))
def test_the_data_directory_is_described(start_broker: StartBroker, tmp_path: Path, version: int) -> None:
    running = start_broker(engine="file", path=str(tmp_path))
    with RawClient(running.address) as client:
        create(client, topic("orders", 2), topic("other"))
        asked = [DescribableLogDirTopic("orders", [1, 9]), DescribableLogDirTopic("nope", [0])]
        some = client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(asked))
        everything = client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(None))

    (found,) = some.results
    assert (some.error_code, found.error_code, found.log_dir) == (0, 0, str(tmp_path))
    assert [(one.name, [part.partition_index for part in one.partitions]) for one in found.topics] == [("orders", [1])]
    assert sorted(one.name for one in everything.results[0].topics) == ["orders", "other"]
    if version >= 4:
        assert found.total_bytes > found.usable_bytes > 0


# Pages of partitions


def page(
    client: RawClient, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    place = None if cursor is None else RequestCursor(*cursor)
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, place)
    response = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def outline(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int, list[int]]]:
    return [
        (one.name, one.error_code, [partition.partition_index for partition in one.partitions])
        for one in response.topics
    ]


def test_partitions_come_in_pages_by_name(client: RawClient) -> None:
    create(client, topic("a", 3), topic("b", 2), topic("c", 1))
    seen, cursor = [], None
    while True:
        response = page(client, [], 2, cursor)
        seen.append(outline(response))
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)

    assert seen == [
        [("a", 0, [0, 1])],
        [("a", 0, [2]), ("b", 0, [0])],
        [("b", 0, [1]), ("c", 0, [0])],
    ]


def test_topics_are_named_once_and_sorted_with_their_faults(client: RawClient) -> None:
    create(client, topic("b", 1), topic("a", 1))
    response = page(client, ["b", "nope", "a", "a/b", "b"])

    assert outline(response) == [("a", 0, [0]), ("a/b", 17, []), ("b", 0, [0]), ("nope", 3, [])]
    assert [one.leader_id for one in response.topics[0].partitions] == [1]


def test_a_limit_of_nothing_gives_one(client: RawClient) -> None:
    create(client, topic("a", 3))
    response = page(client, ["a"], 0)

    assert outline(response) == [("a", 0, [0])]
    assert response.next_cursor is not None


def test_a_cursor_goes_on_behind_a_topic_that_was_deleted(client: RawClient) -> None:
    create(client, topic("a", 1), topic("c", 2))

    assert outline(page(client, [], 10, ("b", 1))) == [("c", 0, [0, 1])]
    assert outline(page(client, ["a"], 10, ("a", 9))) == [("a", 0, [])]


def test_a_cursor_of_another_request_is_refused(client: RawClient) -> None:
    create(client, topic("a", 1))

    assert outline(page(client, ["a"], 10, ("b", 0))) == [("a", ErrorCode.INVALID_REQUEST, [])]
    assert outline(page(client, ["a"], 10, ("a", -1))) == [("a", ErrorCode.INVALID_REQUEST, [])]


# SASL


@pytest.mark.parametrize("version", range(2))
def test_a_plain_listener_knows_no_mechanism(client: RawClient, version: int) -> None:
    answer = client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest("PLAIN"))

    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", range(3))
def test_a_plain_listener_authenticates_no_client(client: RawClient, version: int) -> None:
    answer = client.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(b"\0user\0password"))

    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "after successful authentication" in answer.error_message
