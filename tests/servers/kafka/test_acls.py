"""The ACL APIs and the built-in authorizer, driven by real administration clients and raw requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.client_modules import client_module
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from qanat.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from qanat.wire.kafka.messages.describe_acls import DescribeAclsRequest
from qanat.wire.kafka.registry import ApiKey

confluent = client_module("confluent_kafka")
rd = client_module("confluent_kafka.admin")
kafka = client_module("kafka")
kafka_admin = client_module("kafka.admin")
kafka_errors = client_module("kafka.errors")
aiokafka = client_module("aiokafka")
aiokafka_errors = client_module("aiokafka.errors")

WAIT_S = 60
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANYTHING = DeleteAclsFilter(1, None, 1, None, None, 1, 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    credentials: Path = tmp_path_factory.mktemp("acls") / "credentials"
    credentials.write_text("admin:secret\nalice:secret\nbob:secret\n")
    credentials.chmod(0o600)
    settings = {
        "listener.security.protocol": "SASL_PLAINTEXT",
        "sasl.plain.credentials.file": str(credentials),
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
    }
    with EmbeddedBroker(settings=settings) as broker:
        yield broker


def login(broker: EmbeddedBroker, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "secret",
    }


def python_login(broker: EmbeddedBroker, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": "secret",
    }


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Any:
    return rd.AdminClient({**login(broker, "admin"), "log_level": 0})


@pytest.fixture(autouse=True)
def _no_rules_are_left(admin: Any) -> Iterator[None]:
    yield
    for future in admin.delete_acls([pattern()]).values():
        future.result(WAIT_S)


def pattern(name: str | None = None, kind: Any = None, pattern_type: Any = None, user: str | None = None) -> Any:
    return rd.AclBindingFilter(
        kind or rd.ResourceType.ANY,
        name,
        pattern_type or rd.ResourcePatternType.ANY,
        user,
        None,
        rd.AclOperation.ANY,
        rd.AclPermissionType.ANY,
    )


def binding(
    user: str,
    operation: str,
    name: str,
    *,
    kind: str = "TOPIC",
    prefixed: bool = False,
    deny: bool = False,
    host: str = "*",
) -> Any:
    return rd.AclBinding(
        rd.ResourceType[kind],
        name,
        rd.ResourcePatternType.PREFIXED if prefixed else rd.ResourcePatternType.LITERAL,
        f"User:{user}",
        host,
        rd.AclOperation[operation],
        rd.AclPermissionType.DENY if deny else rd.AclPermissionType.ALLOW,
    )


def create(admin: Any, *bindings: Any) -> None:
    for future in admin.create_acls(list(bindings)).values():
        assert future.result(WAIT_S) is None


def described(admin: Any, wanted: Any = None) -> set[str]:
    return {
        f"{one.permission_type.name} {one.principal} {one.operation.name} {one.restype.name} "
        f"{one.resource_pattern_type.name} {one.name} {one.host}"
        for one in admin.describe_acls(wanted or pattern()).result(WAIT_S)
    }


def test_librdkafka_creates_describes_and_deletes_rules(admin: Any) -> None:
    create(
        admin,
        binding("alice", "READ", "orders"),
        binding("bob", "WRITE", "ord", prefixed=True, deny=True, host="10.0.0.1"),
        binding("*", "DESCRIBE", "*", kind="GROUP"),
    )
    create(admin, binding("alice", "READ", "orders"))
    everything = {
        "ALLOW User:alice READ TOPIC LITERAL orders *",
        "DENY User:bob WRITE TOPIC PREFIXED ord 10.0.0.1",
        "ALLOW User:* DESCRIBE GROUP LITERAL * *",
    }

    assert described(admin) == everything
    matching = pattern("orders", rd.ResourceType.TOPIC, rd.ResourcePatternType.MATCH)
    assert described(admin, matching) == {one for one in everything if "TOPIC" in one}
    assert described(admin, pattern(user="User:bob")) == {"DENY User:bob WRITE TOPIC PREFIXED ord 10.0.0.1"}
    (deleted,) = [one.result(WAIT_S) for one in admin.delete_acls([pattern(user="User:alice")]).values()]
    assert [one.name for one in deleted] == ["orders"]
    assert described(admin) == {one for one in everything if "alice" not in one}


def test_kafka_python_creates_describes_and_deletes_rules(broker: EmbeddedBroker) -> None:
    admin = kafka_admin.KafkaAdminClient(**python_login(broker, "admin"))
    try:
        rule = kafka_admin.ACL(
            principal="User:alice",
            host="*",
            operation=kafka_admin.ACLOperation.READ,
            permission_type=kafka_admin.ACLPermissionType.ALLOW,
            resource_pattern=kafka_admin.ResourcePattern(
                kafka_admin.ResourceType.TOPIC, "py", kafka_admin.ACLResourcePatternType.PREFIXED
            ),
        )
        wanted = kafka_admin.ACLFilter(
            principal="User:alice",
            host=None,
            operation=kafka_admin.ACLOperation.ANY,
            permission_type=kafka_admin.ACLPermissionType.ANY,
            resource_pattern=kafka_admin.ResourcePatternFilter(
                kafka_admin.ResourceType.TOPIC, "python", kafka_admin.ACLResourcePatternType.MATCH
            ),
        )
        created = admin.create_acls([rule])
        found, _ = admin.describe_acls(wanted)
        deleted = admin.delete_acls([wanted])
        left, _ = admin.describe_acls(wanted)
    finally:
        admin.close()

    assert (len(created["succeeded"]), created["failed"]) == (1, [])
    assert found == [rule]
    assert deleted[0][1] == [rule]
    assert left == []


def produced(broker: EmbeddedBroker, user: str, topic: str) -> str:
    """Empty where librdkafka's producer wrote a record, or the name of its error."""
    errors: list[str] = []
    producer = confluent.Producer({**login(broker, user), "log_level": 0, "message.timeout.ms": 10_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append("" if error is None else error.name()))
    assert producer.flush(WAIT_S) == 0
    return errors[0]


def test_a_rule_is_in_force_when_its_creation_is_answered(broker: EmbeddedBroker, admin: Any) -> None:
    broker.create_topic("orders-1")
    assert produced(broker, "alice", "orders-1") == "TOPIC_AUTHORIZATION_FAILED"
    create(admin, binding("alice", "WRITE", "orders-", prefixed=True))
    assert produced(broker, "alice", "orders-1") == ""
    create(admin, binding("*", "WRITE", "orders-1", deny=True, host="127.0.0.1"))
    assert produced(broker, "alice", "orders-1") == "TOPIC_AUTHORIZATION_FAILED"
    assert produced(broker, "admin", "orders-1") == ""


def test_an_idempotent_producer_needs_a_rule_and_no_topic(broker: EmbeddedBroker, admin: Any) -> None:
    """WRITE on a prefix is enough, although no topic of that prefix exists (KIP-679)."""

    def init(user: str) -> int:
        from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest

        with authenticated(broker, user) as client:
            return int(client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1000)).error_code)

    assert init("alice") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create(admin, binding("alice", "WRITE", "not-there-yet-", prefixed=True))
    assert init("alice") == 0
    assert init("bob") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create(admin, binding("alice", "WRITE", "*", deny=True))
    assert init("alice") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_connection_loses_its_right_with_the_rule(broker: EmbeddedBroker, admin: Any) -> None:
    from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

    broker.create_topic("shared")
    request = MetadataRequest([MetadataRequestTopic(name="shared")])
    with authenticated(broker, "alice") as client:

        def code() -> int:
            return int(client.ask(ApiKey.METADATA, 12, request).topics[0].error_code)

        assert code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        create(admin, binding("alice", "READ", "shared"))
        assert code() == 0
        for future in admin.delete_acls([pattern("shared")]).values():
            future.result(WAIT_S)
        assert code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_aiokafka_reads_what_it_may(broker: EmbeddedBroker, admin: Any) -> None:
    broker.create_topic("news")
    assert produced(broker, "admin", "news") == ""

    async def read() -> bytes:
        consumer = aiokafka.AIOKafkaConsumer(
            "news", group_id="readers", auto_offset_reset="earliest", **python_login(broker, "bob")
        )
        try:
            await consumer.start()
            return bytes((await asyncio.wait_for(consumer.getone(), WAIT_S)).value)
        finally:
            await consumer.stop()

    create(admin, binding("bob", "READ", "news"))
    with pytest.raises(aiokafka_errors.GroupAuthorizationFailedError):
        asyncio.run(read())
    create(admin, binding("bob", "READ", "readers", kind="GROUP"))
    assert asyncio.run(read()) == b"x"


def authenticated(broker: EmbeddedBroker, user: str) -> RawClient:
    from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
    from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest

    client = RawClient(broker.bootstrap_servers)
    assert client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")).error_code == 0
    token = f"\0{user}\0secret".encode()
    assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token)).error_code == 0
    return client


def creation(**fields: Any) -> AclCreation:
    made = AclCreation(2, "t", 3, "User:alice", "*", 3, 3)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_bad_rule_is_refused_and_the_good_ones_are_created(broker: EmbeddedBroker, version: int) -> None:
    bad = {
        "resource_type": 1,
        "resource_pattern_type": 2,
        "operation": 0,
        "permission_type": 1,
        "resource_name": "",
        "principal": "alice",
        "host": "",
    }
    rows = [creation(), *(creation(**{field: value}) for field, value in bad.items())]
    rows.append(creation(resource_type=4, resource_name="other-cluster"))
    with authenticated(broker, "admin") as client:
        results = client.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest(rows)).results
        everything = client.ask(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(1, None, 1, None, None, 1, 1))

    assert [row.error_code for row in results] == [0] + [ErrorCode.INVALID_REQUEST] * (len(rows) - 1)
    assert [resource.resource_name for resource in everything.resources] == ["t"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_for_administrators(broker: EmbeddedBroker, admin: Any, version: int) -> None:
    with authenticated(broker, "alice") as client:

        def codes() -> list[int]:
            described = client.ask(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
            created = client.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest([creation()]))
            deleted = client.ask(ApiKey.DELETE_ACLS, version, DeleteAclsRequest([DeleteAclsFilter(2, "x", 3)]))
            return [described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code]

        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert codes() == [denied] * 3
        create(admin, binding("alice", "DESCRIBE", "kafka-cluster", kind="BROKER"))
        assert codes() == [0, denied, denied]
        create(admin, binding("alice", "ALTER", "kafka-cluster", kind="BROKER"))
        assert codes()[:2] == [0, 0]


def test_an_unknown_number_in_a_filter_is_refused(broker: EmbeddedBroker) -> None:
    with authenticated(broker, "admin") as client:
        described = client.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(0, None, 1, None, None, 1, 1))
        unknown = DeleteAclsFilter(1, None, 1, None, None, 77, 1)
        deleted = client.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([unknown, ANYTHING]))

    assert described.error_code == ErrorCode.INVALID_REQUEST
    assert [row.error_code for row in deleted.filter_results] == [ErrorCode.INVALID_REQUEST, 0]


def test_thousands_of_rules_are_created_described_and_deleted(broker: EmbeddedBroker) -> None:
    rows = [creation(resource_name=f"topic-{number}") for number in range(2_000)]
    with authenticated(broker, "admin") as client:
        began = time.monotonic()
        results = client.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(rows)).results
        found = client.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1)).resources
        (deleted,) = client.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([ANYTHING])).filter_results
        left = client.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1)).resources

    assert {row.error_code for row in results} == {0}
    assert len(found) == len(deleted.matching_acls) == 2_000
    assert left == []
    assert time.monotonic() - began < 120


def test_without_an_authorizer_security_is_disabled() -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        described = client.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
        created = client.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation()]))
        deleted = client.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([ANYTHING]))

    codes = [described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code]
    assert codes == [ErrorCode.SECURITY_DISABLED] * 3
    assert described.error_message == "No Authorizer is configured on the broker"
    assert created.results[0].error_message == "No Authorizer is configured."


def test_resources_without_rules_are_open_where_the_setting_says_so() -> None:
    settings = {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": "true"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

        for name in ("open", "closed"):
            broker.create_topic(name)
        request = MetadataRequest([MetadataRequestTopic(name="open"), MetadataRequestTopic(name="closed")])
        rule = creation(resource_name="closed", principal="User:somebody-else")
        assert client.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([rule])).results[0].error_code == 0
        topics = client.ask(ApiKey.METADATA, 12, request).topics

    assert {topic.name: topic.error_code for topic in topics} == {
        "open": 0,
        "closed": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_a_rule_that_cannot_be_read_denies_everything_but_to_super_users(
    broker: EmbeddedBroker, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from qanat.cluster import keys
    from qanat.cluster.store import Delete, Put

    broker.create_topic("readable")
    create(admin, binding("alice", "WRITE", "readable"))
    assert produced(broker, "alice", "readable") == ""
    key, commit = keys.acl("broken"), broker.node.broker.metadata.commit
    broker._do(lambda: commit([], [Put(key, b"{")]))
    assert produced(broker, "alice", "readable") == "TOPIC_AUTHORIZATION_FAILED"
    assert produced(broker, "admin", "readable") == ""
    broker._do(lambda: commit([], [Delete(key)]))
    assert produced(broker, "alice", "readable") == ""
    assert "an ACL cannot be read: all is denied" in caplog.text


def test_a_fetch_that_waits_gives_nothing_out_when_its_right_is_gone(broker: EmbeddedBroker, admin: Any) -> None:
    from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    broker.create_topic("parked")
    create(admin, binding("alice", "READ", "parked"))
    request = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1_000_000,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic("parked", partitions=[FetchPartition(0, partition_max_bytes=1_000_000)])],
    )
    with authenticated(broker, "alice") as client:
        client.send(ApiKey.FETCH, 12, request)
        time.sleep(0.3)
        for future in admin.delete_acls([pattern("parked")]).values():
            future.result(WAIT_S)
        assert produced(broker, "admin", "parked") == ""
        (topic,) = client.receive(ApiKey.FETCH, 12).responses

    (row,) = topic.partitions
    assert (row.error_code, bytes(row.records or b"")) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def test_a_fetch_session_loses_a_topic_with_the_right_to_it_and_serves_nobody_else(
    broker: EmbeddedBroker, admin: Any
) -> None:
    from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    broker.create_topic("standing")
    create(admin, binding("alice", "READ", "standing"))
    topics = [FetchTopic("standing", partitions=[FetchPartition(0, partition_max_bytes=1_000_000)])]
    with authenticated(broker, "alice") as alice, authenticated(broker, "bob") as bob:

        def fetched(client: Any, session: int, epoch: int) -> Any:
            request = FetchRequest(max_wait_ms=0, session_id=session, session_epoch=epoch)
            request.topics = topics if epoch == 0 else []
            return client.ask(ApiKey.FETCH, 12, request)

        session = fetched(alice, 0, 0).session_id
        assert produced(broker, "admin", "standing") == ""
        stolen = fetched(bob, session, 1)
        fetched(bob, session, -1)  # Nor does a stranger end it.
        (kept,) = fetched(alice, session, 1).responses
        for future in admin.delete_acls([pattern("standing")]).values():
            future.result(WAIT_S)
        (lost,) = fetched(alice, session, 2).responses

    assert session != 0
    assert (stolen.error_code, stolen.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    assert (kept.partitions[0].error_code, len(kept.partitions[0].records) > 0) == (0, True)
    row = lost.partitions[0]
    assert (row.error_code, bytes(row.records or b"")) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def test_a_share_session_loses_a_topic_with_the_right_to_it(broker: EmbeddedBroker, admin: Any) -> None:
    from qanat.wire.kafka.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
    from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

    broker.create_topic("queued")
    topic_id = broker.node.broker.metadata.image.topics["queued"].identity.value.bytes
    create(admin, binding("bob", "READ", "queued"), binding("bob", "READ", "workers", kind="GROUP"))

    def fetched(epoch: int, topics: list[FetchTopic]) -> Any:
        return client.ask(
            ApiKey.SHARE_FETCH,
            1,
            ShareFetchRequest("workers", "m", epoch, 500, 1, 1_000_000, 10, 10, topics=topics),
        )

    with authenticated(broker, "bob") as client:
        beat = ShareGroupHeartbeatRequest("workers", "m", 0, subscribed_topic_names=["queued"])
        assert client.ask_coordinator(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat).error_code == 0
        first = fetched(0, [FetchTopic(topic_id, [FetchPartition(0)])])
        assert first.error_code == 0
        assert produced(broker, "admin", "queued") == ""
        for future in admin.delete_acls([pattern("queued")]).values():
            future.result(WAIT_S)
        second, third = fetched(1, []), fetched(2, [])

    (row,) = second.responses[0].partitions
    assert (row.error_code, row.acquired_records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert [row for topic in third.responses for row in topic.partitions if row.acquired_records] == []
