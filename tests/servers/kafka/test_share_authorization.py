"""Authorization of share groups: what the authorizer is asked, and what callers without rights get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages import alter_share_group_offsets as altering
from qanat.wire.kafka.messages import delete_share_group_offsets as deleting
from qanat.wire.kafka.messages import describe_configs as configs
from qanat.wire.kafka.messages import describe_share_group_offsets as describing
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from qanat.wire.kafka.registry import ApiKey

GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_RESOURCE = 32


class Rules:
    """An authoriser that allows what a test says."""

    def __init__(self) -> None:
        self.is_allowed: Callable[[Operation, Resource], bool] = lambda operation, resource: True

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return self.is_allowed(operation, resource)


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules()


@pytest.fixture(scope="module")
def broker(rules: Rules) -> Iterator[EmbeddedBroker]:
    """With a share group `g` that reads `t` and `u` and has no members."""
    with EmbeddedBroker() as broker:
        for name in ("t", "u"):
            broker.create_topic(name, partitions=1)
        with RawClient(broker.bootstrap_servers) as client:
            for epoch in (0, -1):
                beat = ShareGroupHeartbeatRequest("g", "m", epoch, subscribed_topic_names=["t", "u"])
                assert client.ask_coordinator(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat).error_code == 0
        broker.node.listener.dispatcher.interceptor = ListenerSecurity(authorizer=rules).handle
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def describe_offsets(client: RawClient, topics: list[str] | None) -> Any:
    rows = None if topics is None else [describing.DescribeShareGroupOffsetsRequestTopic(one, [0]) for one in topics]
    request = describing.DescribeShareGroupOffsetsRequest([describing.DescribeShareGroupOffsetsRequestGroup("g", rows)])
    return client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request).groups[0]


def alter(client: RawClient, *topics: str) -> Any:
    partition = altering.AlterShareGroupOffsetsRequestPartition(0, 0)
    rows = [altering.AlterShareGroupOffsetsRequestTopic(topic, [partition]) for topic in topics]
    return client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, altering.AlterShareGroupOffsetsRequest("g", rows))


def delete(client: RawClient, *topics: str) -> Any:
    rows = [deleting.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    return client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, deleting.DeleteShareGroupOffsetsRequest("g", rows))


def beat(client: RawClient, member: str, *topics: str) -> Any:
    request = ShareGroupHeartbeatRequest("g", member, 0, subscribed_topic_names=list(topics))
    return client.ask_coordinator(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


def test_who_may_nothing_learns_nothing(client: RawClient, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: False
    (described,) = client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(["g"])).groups
    resource = configs.DescribeConfigsResource(_GROUP_RESOURCE, "g", None)
    (settings,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, configs.DescribeConfigsRequest([resource])).results
    found = client.ask(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest("", 2, [f"g:{'A' * 22}:0"]))

    assert beat(client, "m", "t").error_code == GROUP_DENIED
    assert (described.error_code, described.members, described.group_state) == (GROUP_DENIED, [], "")
    assert describe_offsets(client, ["t"]).error_code == GROUP_DENIED
    assert alter(client, "t").error_code == GROUP_DENIED
    assert delete(client, "t").error_code == GROUP_DENIED
    assert (settings.error_code, settings.configs) == (GROUP_DENIED, [])
    assert found.coordinators[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_topics_that_may_not_be_seen_stay_hidden(client: RawClient, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: resource.name != "u"
    everything, named = describe_offsets(client, None), describe_offsets(client, ["t", "u", "nowhere"])
    altered, deleted = alter(client, "t", "u"), delete(client, "u")

    assert beat(client, "m", "t", "u").error_code == TOPIC_DENIED
    assert [topic.topic_name for topic in everything.topics] == ["t"]
    codes = {topic.topic_name: topic.partitions[0].error_code for topic in named.topics}
    assert codes == {"t": 0, "u": TOPIC_DENIED, "nowhere": 0}
    assert {one.topic_name: one.partitions[0].error_code for one in altered.responses} == {"t": 0, "u": TOPIC_DENIED}
    assert [(one.topic_name, one.error_code) for one in deleted.responses] == [("u", TOPIC_DENIED)]


def test_a_group_whose_members_read_what_may_not_be_seen_is_not_described(client: RawClient, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: True
    assert beat(client, "m", "t", "u").error_code == 0
    request = ShareGroupDescribeRequest(["g"], True)
    (seen,) = client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, request).groups
    rules.is_allowed = lambda operation, resource: resource.kind is ResourceKind.GROUP
    (hidden,) = client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, request).groups

    assert [member.member_id for member in seen.members] == ["m"]
    assert seen.authorized_operations > 0
    assert (hidden.error_code, hidden.members) == (TOPIC_DENIED, [])
