"""A broker whose authorizer is in a dry run: clients are not denied, and the rules that they need are suggested."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType
from confluent_kafka.admin._resource import ResourceType as Kind
from confluent_kafka.cimpl import NewTopic

from qanat.app import main
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker

WAIT_S = 60


def users(tmp_path: Path) -> str:
    credentials = tmp_path / "credentials"
    credentials.write_text("alice:secret\nbob:secret\nadmin:secret\n")
    credentials.chmod(0o600)
    return str(credentials)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    settings = {
        "listener.security.protocol": "SASL_PLAINTEXT",
        "sasl.plain.credentials.file": users(tmp_path),
        "authorizer.class.name": "StandardAuthorizer",
        "authorizer.dry.run": True,
        "super.users": "User:admin",
    }
    with EmbeddedBroker(settings=settings) as broker:
        yield broker


def as_user(broker: EmbeddedBroker, name: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": "secret",
    }


def use(broker: EmbeddedBroker, name: str, group: str) -> None:
    """Create a topic, write to it as an idempotent producer and read from it in a group."""
    admin = AdminClient(as_user(broker, name))
    (made,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
    fault = made.exception(WAIT_S)
    assert fault is None or fault.args[0].name() == "TOPIC_ALREADY_EXISTS"
    producer = Producer({**as_user(broker, name), "enable.idempotence": True})
    producer.produce("orders", b"v", partition=0)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**as_user(broker, name), "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"v"
    consumer.commit(asynchronous=False)
    consumer.close()


def run_command(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    settings = {name: value for name, value in as_user(broker, "admin").items() if name != "bootstrap.servers"}
    flags = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    assert main.run([*words, "--bootstrap", broker.bootstrap_servers, *flags]) == 0
    return capsys.readouterr().out


def test_clients_work_and_the_suggested_rules_are_all_that_they_need(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    use(broker, "alice", "billing")
    commands = run_command(broker, capsys, "acl", "suggest").splitlines()

    assert sorted(commands) == [
        "qanat acl add --principal User:alice --operation read --group billing",
        "qanat acl add --principal User:alice --operation read,write,create,describe-configs --topic orders",
    ]
    for command in commands:
        run_command(broker, capsys, *shlex.split(command)[1:])
    assert "qanat acl add" not in run_command(broker, capsys, "acl", "suggest"), "nothing is missing any more"
    authorizer = broker.node.broker.acl_authorizer
    assert authorizer is not None
    assert authorizer.dry_run is not None
    before = {one for one in authorizer.dry_run.counts if one.operation.name != "DESCRIBE"}
    use(broker, "alice", "billing")
    counted = {one: authorizer.dry_run.counts[one] for one in before}
    use(broker, "alice", "billing")

    assert {one: authorizer.dry_run.counts[one] for one in before} == counted, "with the rules, nothing is recorded"
    assert {one for one in authorizer.dry_run.counts if one.operation.name != "DESCRIBE"} == before
    authorizer.dry_run = None
    use(broker, "alice", "billing")


def test_a_rule_that_denies_is_enforced_and_so_are_changes_of_rules(broker: EmbeddedBroker) -> None:
    admin = AdminClient(as_user(broker, "admin"))
    (made,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
    made.result(WAIT_S)
    arguments = ("User:bob", "*", AclOperation.WRITE, AclPermissionType.DENY)
    deny = AclBinding(Kind.TOPIC, "orders", ResourcePatternType.LITERAL, *arguments)
    (created,) = admin.create_acls([deny]).values()
    created.result(WAIT_S)
    producer = Producer(as_user(broker, "bob"))
    errors: list[Any] = []
    producer.produce("orders", b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_S)
    assert [error.name() for error in errors] == ["TOPIC_AUTHORIZATION_FAILED"]

    own = ("User:bob", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    grant = AclBinding(Kind.TOPIC, "secret", ResourcePatternType.LITERAL, *own)
    bob = AdminClient(as_user(broker, "bob"))
    (refused,) = bob.create_acls([grant]).values()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        refused.result(WAIT_S)


def test_without_a_dry_run_there_is_nothing_to_suggest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        assert main.run(["acl", "suggest", "--bootstrap", broker.bootstrap_servers]) == 1
    assert "authorizer.dry.run=true" in capsys.readouterr().err


def test_a_dry_run_needs_the_built_in_authorizer() -> None:
    settings = {"authorizer.class.name": "other", "authorizer.dry.run": True}
    with pytest.raises(InvalidSettingError, match=r"authorizer\.dry\.run needs"), EmbeddedBroker(settings=settings):
        pass
