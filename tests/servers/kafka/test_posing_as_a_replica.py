"""A client that poses as a replica gets a clear error, in every version."""

from __future__ import annotations

import pytest
from tests.servers.kafka.admin_requests import create, topic
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from qanat.wire.kafka.registry import ApiKey


@pytest.mark.parametrize("version", [4, 6, 7, 12])
def test_a_false_replica_is_refused_in_every_partition(client: RawClient, version: int) -> None:
    create(client, topic("orders"))
    asked = FetchTopic("orders", partitions=[FetchPartition(0, partition_max_bytes=1000)])
    answer = client.ask(ApiKey.FETCH, version, FetchRequest(replica_id=1, max_bytes=1000, topics=[asked]))

    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == (denied if version >= 7 else ErrorCode.NONE)
    assert [(one.partition_index, one.error_code) for one in answer.responses[0].partitions] == [(0, denied)]


def test_so_is_who_says_it_in_the_new_way(client: RawClient) -> None:
    request = FetchRequest(replica_state=ReplicaState(1, 1), max_bytes=1000)

    assert client.ask(ApiKey.FETCH, 15, request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
