"""TLS, SCRAM, ACLs and an open listener on one broker: each connection is decided about by its own listener."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.client_modules import client_module
from tests.servers.tls.certificates import Authority, client_context

from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.wire.kafka.registry import ApiKey

confluent = client_module("confluent_kafka")
rd = client_module("confluent_kafka.admin")

WAIT_S = 60
ALLOWED, DENIED = "orders", "secret"


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The listener and the API of requests that took the ordinary path."""
    seen: list[tuple[str, int]] = []
    handle = Dispatcher._handle

    def watched(self: Dispatcher, frame: memoryview, connection: KafkaConnection, began: float) -> Any:
        seen.append((connection.listener_name, int.from_bytes(frame[:2])))
        return handle(self, frame, connection, began)

    monkeypatch.setattr(Dispatcher, "_handle", watched)
    return seen


@asynccontextmanager
async def running(authority: Authority) -> AsyncIterator[Node]:
    """A broker whose open listener is the administrator's."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": authority.server().both,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "storage.engine": "memory",
        "http.port": 0,
        "http.security.protocol": "SSL",
        "listener.name.http.ssl.client.auth": "requested",
        "listener.name.http.ssl.truststore.location": authority.trusted,
        "listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=people$/$1/",
    }
    flags = [flag(name, value, name) for name, value in settings.items()]
    async with Node(load(flags, None, {}).settings) as node:
        await asyncio.to_thread(set_up, open_client(node))
        yield node


def open_client(node: Node) -> dict[str, str]:
    return {"bootstrap.servers": f"127.0.0.1:{node.listener.ports['PLAINTEXT']}"}


def set_up(client_settings: dict[str, str]) -> None:
    """Create the topics, the user alice, and the rules that let her write to one topic and see the other."""
    client = rd.AdminClient(client_settings)
    rules = [rule(ALLOWED, rd.AclOperation.WRITE), rule(DENIED, rd.AclOperation.DESCRIBE)]
    password = rd.ScramCredentialInfo(rd.ScramMechanism.SCRAM_SHA_512, 4096)
    done = {
        **client.create_topics([rd.NewTopic(ALLOWED, 1), rd.NewTopic(DENIED, 1)]),
        **client.alter_user_scram_credentials([rd.UserScramCredentialUpsertion("alice", password, b"wonderland")]),
        **client.create_acls(rules),
    }
    for future in done.values():
        future.result(WAIT_S)


def rule(topic: str, operation: Any) -> Any:
    """Alice may do this to the topic."""
    allow, literal = rd.AclPermissionType.ALLOW, rd.ResourcePatternType.LITERAL
    return rd.AclBinding(rd.ResourceType.TOPIC, topic, literal, "User:alice", "*", operation, allow)


def end_offsets(node: Node) -> dict[str, int]:
    writable = node.broker.local_replicas.writable
    return {topic: writable[topic, 0].log.end_offset for topic in (ALLOWED, DENIED)}


def produced(client: dict[str, str], topic: str) -> str | None:
    """The error's name of a record that was sent; None where it was written."""
    errors: list[str | None] = []
    producer = confluent.Producer({**client, "linger.ms": 0})
    producer.produce(topic, b"hello", on_delivery=lambda error, _: errors.append(error and error.name()))
    assert producer.flush(WAIT_S) == 0
    (error,) = errors
    return error


async def test_librdkafka_writes_what_its_listener_and_rules_allow_by_the_fast_path(
    tmp_path: Path, ordinary: list[tuple[str, int]]
) -> None:
    authority = Authority(tmp_path)
    async with running(authority) as node:
        alice = {
            "bootstrap.servers": f"127.0.0.1:{node.listener.ports['SASL_SSL']}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.trusted),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "wonderland",
        }
        ordinary.clear()
        assert await asyncio.to_thread(produced, alice, ALLOWED) is None
        assert await asyncio.to_thread(produced, open_client(node), DENIED) is None
        assert end_offsets(node) == {ALLOWED: 1, DENIED: 1}
        assert {listener for listener, _ in ordinary} == {"PLAINTEXT", "SASL_SSL"}
        assert ApiKey.PRODUCE not in {key for _, key in ordinary}, "both records took the fast path"

        assert await asyncio.to_thread(produced, alice, DENIED) == "TOPIC_AUTHORIZATION_FAILED"
        assert ("SASL_SSL", ApiKey.PRODUCE) in ordinary
        assert end_offsets(node) == {ALLOWED: 1, DENIED: 1}


async def test_over_http_a_certificate_has_the_rights_of_its_principal(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    alice = client_context(authority, authority.client("alice", "CN=alice,OU=people"))
    async with running(authority) as node:
        assert node.http is not None
        address = node.http.address

        def status(context: ssl.SSLContext, topic: str) -> int:
            body = b'{"topic": "%s", "value": 1}' % topic.encode()
            request = urllib.request.Request(f"{address}/produce", body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=WAIT_S, context=context) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as refused:
                return refused.code

        assert await asyncio.to_thread(status, alice, ALLOWED) == 200
        assert await asyncio.to_thread(status, alice, DENIED) == 403
        assert await asyncio.to_thread(status, client_context(authority), DENIED) == 200
        assert end_offsets(node) == {ALLOWED: 1, DENIED: 1}
