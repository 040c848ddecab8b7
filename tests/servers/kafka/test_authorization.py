"""Authorization: every API has its rule, and a caller without rights gets Kafka's errors and learns nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.servers.kafka.raw import RawClient

from qanat.api.api_table import SERVED, ServedApi
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError
from qanat.model.ids import TopicId
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.http.caller import HttpCaller
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.headers import RequestHeader
from qanat.wire.kafka.messages import (
    alter_configs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from qanat.wire.kafka.registry import ApiKey

TOPIC, GROUP = "secret", "hidden"
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Rules:
    """An authorizer that allows what a test says, and records what it was asked."""

    def __init__(self) -> None:
        self.is_allowed: Callable[[Operation, Resource], bool] = lambda operation, resource: False
        self.asked: list[tuple[Operation, Resource]] = []

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        assert (str(principal), host) == ("User:ANONYMOUS", "127.0.0.1")
        self.asked.append((operation, resource))
        return self.is_allowed(operation, resource)


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules()


@pytest.fixture(scope="module")
def broker(rules: Rules) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC)
        broker.node.listener.dispatcher.interceptor = ListenerSecurity(authorizer=rules).handle
        yield broker


@pytest.fixture(autouse=True)
def _nothing_is_allowed(rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: False
    rules.asked.clear()


def codes(answer: Any) -> set[int]:
    """Every error code anywhere in an answer, none included."""
    found: set[int] = set()
    if isinstance(answer, msgspec.Struct):
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            if name == "error_code":
                found.add(value)
            found |= codes(value)
    elif isinstance(answer, list):
        for one in answer:
            found |= codes(one)
    return found


def _commit(version: int) -> Any:
    rows = [offset_commit.OffsetCommitRequestPartition(0, 1)]
    return offset_commit.OffsetCommitRequest(
        GROUP, topics=[offset_commit.OffsetCommitRequestTopic(TOPIC, partitions=rows)]
    )


def _fetched(version: int) -> Any:
    if version < 8:
        return offset_fetch.OffsetFetchRequest(GROUP, [offset_fetch.OffsetFetchRequestTopic(TOPIC, [0])])
    topics = [offset_fetch.OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(GROUP, topics=topics)])


def _find(version: int) -> Any:
    request = find_coordinator.FindCoordinatorRequest
    return request(GROUP) if version < 4 else request(coordinator_keys=[GROUP])


def _delete(version: int) -> Any:
    request = delete_topics.DeleteTopicsRequest
    if version < 6:
        return request(topic_names=[TOPIC], timeout_ms=1000)
    return request(topics=[delete_topics.DeleteTopicState(TOPIC)], timeout_ms=1000)


def _beat(*topics: str) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )


REQUESTS: dict[ApiKey, tuple[Callable[[int], Any], ErrorCode, int]] = {
    ApiKey.PRODUCE: (
        lambda version: produce.ProduceRequest(
            acks=1,
            topic_data=[produce.TopicProduceData(TOPIC, partition_data=[produce.PartitionProduceData(0, None)])],
        ),
        TOPIC_DENIED,
        12,
    ),
    ApiKey.FETCH: (
        lambda version: fetch.FetchRequest(topics=[fetch.FetchTopic(TOPIC, partitions=[fetch.FetchPartition()])]),
        TOPIC_DENIED,
        12,
    ),
    ApiKey.LIST_OFFSETS: (
        lambda version: list_offsets.ListOffsetsRequest(
            -1, topics=[list_offsets.ListOffsetsTopic(TOPIC, [list_offsets.ListOffsetsPartition(0)])]
        ),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.METADATA: (
        lambda version: metadata.MetadataRequest([metadata.MetadataRequestTopic(name=TOPIC)]),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.OFFSET_COMMIT: (_commit, GROUP_DENIED, 99),
    ApiKey.OFFSET_FETCH: (_fetched, GROUP_DENIED, 99),
    ApiKey.FIND_COORDINATOR: (_find, GROUP_DENIED, 99),
    ApiKey.JOIN_GROUP: (lambda version: join_group.JoinGroupRequest(GROUP, 6000), GROUP_DENIED, 99),
    ApiKey.HEARTBEAT: (lambda version: heartbeat.HeartbeatRequest(GROUP), GROUP_DENIED, 99),
    ApiKey.LEAVE_GROUP: (lambda version: leave_group.LeaveGroupRequest(GROUP), GROUP_DENIED, 99),
    ApiKey.SYNC_GROUP: (lambda version: sync_group.SyncGroupRequest(GROUP), GROUP_DENIED, 99),
    ApiKey.DESCRIBE_GROUPS: (lambda version: describe_groups.DescribeGroupsRequest([GROUP]), GROUP_DENIED, 99),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (lambda version: _beat(TOPIC), GROUP_DENIED, 99),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        lambda version: consumer_group_describe.ConsumerGroupDescribeRequest([GROUP]),
        GROUP_DENIED,
        99,
    ),
    ApiKey.DELETE_GROUPS: (lambda version: delete_groups.DeleteGroupsRequest([GROUP]), GROUP_DENIED, 99),
    ApiKey.OFFSET_DELETE: (lambda version: offset_delete.OffsetDeleteRequest(GROUP), GROUP_DENIED, 99),
    ApiKey.CREATE_TOPICS: (
        lambda version: create_topics.CreateTopicsRequest([create_topics.CreatableTopic("new", 1, 1)], 1000),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.DELETE_TOPICS: (_delete, TOPIC_DENIED, 99),
    ApiKey.DELETE_RECORDS: (
        lambda version: delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic(TOPIC, [delete_records.DeleteRecordsPartition(0, 0)])], 1000
        ),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.CREATE_PARTITIONS: (
        lambda version: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(TOPIC, 2, None)], 1000
        ),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        lambda version: describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(TOPIC)]
        ),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        lambda version: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(4, "0", None)]
        ),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.ALTER_CONFIGS: (
        lambda version: alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(2, TOPIC)]),
        TOPIC_DENIED,
        99,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        lambda version: incremental_alter_configs.IncrementalAlterConfigsRequest(
            [incremental_alter_configs.AlterConfigsResource(4, "0")]
        ),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.DESCRIBE_LOG_DIRS: (lambda version: describe_log_dirs.DescribeLogDirsRequest(None), CLUSTER_DENIED, 99),
    ApiKey.DESCRIBE_ACLS: (
        lambda version: describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.CREATE_ACLS: (
        lambda version: create_acls.CreateAclsRequest([create_acls.AclCreation(2, TOPIC, 3, "User:a", "*", 3, 3)]),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.DELETE_ACLS: (
        lambda version: delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        lambda version: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        lambda version: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            [alter_user_scram_credentials.ScramCredentialDeletion("alice", 1)]
        ),
        CLUSTER_DENIED,
        99,
    ),
    ApiKey.INIT_PRODUCER_ID: (lambda version: init_producer_id.InitProducerIdRequest(None, 1000), CLUSTER_DENIED, 99),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        lambda version: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    TOPIC, [offset_for_leader_epoch.OffsetForLeaderPartition(0)]
                )
            ]
        ),
        TOPIC_DENIED,
        99,
    ),
}
"""A request per API that names one thing, what it is refused with, and the last version that names topics by name."""

CELLS = [
    (key, version)
    for key, (_, _, last) in REQUESTS.items()
    for version in range(SERVED[key].first_version, min(SERVED[key].last_version, last) + 1)
    if not (key is ApiKey.DESCRIBE_LOG_DIRS and version < 3)
]


def test_every_api_has_a_rule() -> None:
    assert [served.api.name for served in SERVED.values() if served.authorize is None] == []


def test_an_api_without_a_rule_is_refused_altogether(broker: EmbeddedBroker, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: True
    without_rule = ServedApi(ApiKey.HEARTBEAT, 0, 4, "api.caller")
    security = ListenerSecurity(authorizer=rules, super_users=("User:ANONYMOUS",))
    context = RequestContext(broker.node.broker, HttpCaller(None), RequestHeader(ApiKey.HEARTBEAT, 4, 0, None, 0))

    with pytest.raises(MalformedMessageError, match="no authorization rule"):
        security.handle(without_rule, heartbeat.HeartbeatRequest(GROUP), context)


def imported_by(code: str) -> set[str]:
    """The modules that an interpreter has after it ran some code."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.split())


def test_a_rule_is_imported_with_the_first_request_of_its_api() -> None:
    imported = imported_by("import qanat.servers.kafka.listener, qanat.servers.listener_security")

    assert [served.module for served in SERVED.values() if f"qanat.{served.module}" in imported] == []


def test_a_broker_without_an_authorizer_does_not_load_what_rules_need() -> None:
    handled = "from qanat.api.api_table import SERVED\nfor served in SERVED.values(): served.handle"

    assert "qanat.api.authorization" not in imported_by(handled)


@pytest.mark.parametrize(("key", "version"), CELLS, ids=lambda value: getattr(value, "name", str(value)))
def test_a_caller_without_rights_is_refused(broker: EmbeddedBroker, key: ApiKey, version: int) -> None:
    make, expected, _ = REQUESTS[key]
    with RawClient(broker.bootstrap_servers) as client:
        answer = client.ask(key, version, make(version))

    assert codes(answer) - {0} == {expected}


@pytest.mark.parametrize("key", list(REQUESTS), ids=lambda key: key.name)
def test_a_caller_with_all_rights_is_not(broker: EmbeddedBroker, rules: Rules, key: ApiKey) -> None:
    if key is ApiKey.DELETE_TOPICS:
        return
    rules.is_allowed = lambda operation, resource: True
    make, expected, last = REQUESTS[key]
    version = min(SERVED[key].last_version, last)
    with RawClient(broker.bootstrap_servers) as client:
        answer = client.ask(key, version, make(version))

    assert expected not in codes(answer)
    assert rules.asked


def test_what_may_not_be_seen_is_left_out_of_lists(broker: EmbeddedBroker, rules: Rules) -> None:
    broker.create_topic("open")
    rules.is_allowed = lambda operation, resource: resource == Resource(ResourceKind.TOPIC, "open")
    with RawClient(broker.bootstrap_servers) as client:
        for version in SERVED[ApiKey.METADATA].first_version, 12:
            everything = client.ask(ApiKey.METADATA, version, metadata.MetadataRequest(None if version else []))
            assert [topic.name for topic in everything.topics] == ["open"]
        described = client.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, describe_topic_partitions.DescribeTopicPartitionsRequest([])
        )
        assert [topic.name for topic in described.topics] == ["open"]
        assert client.ask(ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest()).groups == []


@pytest.mark.parametrize(
    ("topics", "expression", "expected"),
    [
        (["mine"], None, 0),
        (["mine", TOPIC], None, TOPIC_DENIED),
        (["mine", "nowhere"], None, TOPIC_DENIED),
        (None, "mine", 0),
        (["mine"], "", 0),
    ],
)
def test_a_member_of_a_group_may_subscribe_to_what_it_may_see(
    broker: EmbeddedBroker, rules: Rules, topics: list[str] | None, expression: str | None, expected: int
) -> None:
    """An expression may be anything: it stands for what may be seen."""
    rules.is_allowed = lambda operation, resource: resource.name in ("mine", "our-group")
    request = _beat(*(topics or ()))
    request.group_id, request.member_id, request.subscribed_topic_regex = (
        "our-group",
        f"{topics}{expression}",
        expression,
    )
    request.subscribed_topic_names = topics
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request).error_code == expected


def test_an_expression_stands_for_topics_that_may_be_seen(broker: EmbeddedBroker, rules: Rules) -> None:
    visible = {"seen-1", "seen-2", "our-group"}
    rules.is_allowed = lambda operation, resource: True
    for name in ("seen-1", "hidden-1"):
        broker.create_topic(name, partitions=1)
    rules.is_allowed = lambda operation, resource: resource.name in visible
    request = _beat()
    request.group_id, request.member_id, request.subscribed_topic_names = "our-group", "m1", None
    request.subscribed_topic_regex = "(seen|hidden)-.*"
    with RawClient(broker.bootstrap_servers) as client:

        def assigned(answer: Any) -> list[str]:
            names = broker.node.broker.metadata.image.topics_by_id
            return sorted(names[TopicId.of(row.topic_id)].name for row in answer.assignment.topic_partitions)

        joined = client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        for name in ("hidden-2", "seen-2"):
            broker.create_topic(name, partitions=1)
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("our-group", "m1", joined.member_epoch)
        later = client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    assert (joined.error_code, assigned(joined)) == (0, ["seen-1"])
    assert (later.error_code, assigned(later)) == (0, ["seen-1", "seen-2"])


def test_a_group_that_reads_what_may_not_be_seen_is_not_described(broker: EmbeddedBroker, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: True
    request = consumer_group_describe.ConsumerGroupDescribeRequest([GROUP])
    with RawClient(broker.bootstrap_servers) as client:
        client.ask_coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, _beat(TOPIC))
        (seen,) = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        rules.is_allowed = lambda operation, resource: resource.kind is ResourceKind.GROUP
        (hidden,) = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups

    assert [member.subscribed_topic_names for member in seen.members] == [[TOPIC]]
    assert (hidden.error_code, hidden.members) == (TOPIC_DENIED, [])


def test_a_topic_that_may_not_be_seen_looks_like_one_that_is_not_there(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        names = [metadata.MetadataRequestTopic(name=name) for name in (TOPIC, "nowhere")]
        rows = client.ask(ApiKey.METADATA, 12, metadata.MetadataRequest(names)).topics

    assert [(row.error_code, row.partitions, row.topic_id) for row in rows] == [(TOPIC_DENIED, [], bytes(16))] * 2
    assert "nowhere" not in broker.topics()


def test_what_is_allowed_of_a_request_is_done(broker: EmbeddedBroker, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: resource.name == "mine"
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in ("mine", "yours")]
    with RawClient(broker.bootstrap_servers) as client:
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics, 10_000))

    assert {row.name: row.error_code for row in answer.topics} == {"mine": 0, "yours": TOPIC_DENIED}
    assert "mine" in broker.topics()
    assert "yours" not in broker.topics()


def test_operations_are_shown_as_far_as_they_are_allowed(broker: EmbeddedBroker, rules: Rules) -> None:
    rules.is_allowed = lambda operation, resource: operation in (Operation.DESCRIBE, Operation.READ)
    request = metadata.MetadataRequest(
        [metadata.MetadataRequestTopic(name=TOPIC)], include_topic_authorized_operations=True
    )
    with RawClient(broker.bootstrap_servers) as client:
        (topic,) = client.ask(ApiKey.METADATA, 12, request).topics
        cluster = client.ask(ApiKey.DESCRIBE_CLUSTER, 0, describe_cluster.DescribeClusterRequest(True))

    assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert cluster.cluster_authorized_operations == 1 << Operation.DESCRIBE


def test_a_refused_produce_without_an_answer_ends_the_connection(broker: EmbeddedBroker) -> None:
    data = [produce.TopicProduceData(TOPIC, partition_data=[produce.PartitionProduceData(0, None)])]
    with RawClient(broker.bootstrap_servers) as client:
        client.send(ApiKey.PRODUCE, 9, produce.ProduceRequest(acks=0, topic_data=data))
        with pytest.raises(EOFError):
            client.receive_bytes()


def test_a_denied_topic_stays_in_its_fetch_session_until_it_is_allowed(broker: EmbeddedBroker, rules: Rules) -> None:
    broker.create_topic("other")
    rules.is_allowed = lambda operation, resource: resource.name == TOPIC
    topics = [
        fetch.FetchTopic(name, partitions=[fetch.FetchPartition(partition_max_bytes=1000)]) for name in (TOPIC, "other")
    ]
    with RawClient(broker.bootstrap_servers) as client:

        def fetched(session: int, epoch: int) -> tuple[int, dict[str, int]]:
            request = fetch.FetchRequest(
                max_wait_ms=0, session_id=session, session_epoch=epoch, topics=topics if epoch == 0 else []
            )
            answer = client.ask(ApiKey.FETCH, 12, request)
            return answer.session_id, {topic.topic: topic.partitions[0].error_code for topic in answer.responses}

        session, whole = fetched(0, 0)
        again = fetched(session, 1)
        rules.is_allowed = lambda operation, resource: True
        allowed = fetched(session, 2)
        unchanged = fetched(session, 3)

    assert session != 0
    assert whole == {TOPIC: 0, "other": TOPIC_DENIED}
    assert again == (session, {"other": TOPIC_DENIED})
    assert allowed == (session, {"other": 0})
    assert unchanged == (session, {})


def test_super_users_are_not_asked_about(broker: EmbeddedBroker, rules: Rules) -> None:
    dispatcher = broker.node.listener.dispatcher
    before, dispatcher.interceptor = dispatcher.interceptor, ListenerSecurity(None, rules, ("User:ANONYMOUS",)).handle
    try:
        with RawClient(broker.bootstrap_servers) as client:
            rows = client.ask(ApiKey.METADATA, 12, metadata.MetadataRequest(None)).topics
    finally:
        dispatcher.interceptor = before

    assert TOPIC in [row.name for row in rows]
    assert rules.asked == []
