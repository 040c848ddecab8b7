"""Who may do what over HTTP: the same as through the Kafka door, under the same names and passwords."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import Answer, ServedNode, node_settings, served

from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.security.settings import SecuritySettings


class OnlyOwnTopics:
    """Alice may use topics whose names begin with hers, and nothing else."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return resource.kind is ResourceKind.TOPIC and resource.name.startswith(principal.name)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    passwords: Path = tmp_path_factory.mktemp("passwords") / "passwords"
    passwords.write_text("alice:secret\nroot:secret\n")
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT", sasl_plain_credentials_file=str(passwords), super_users="User:root"
    )
    with served(replace(node_settings(), security=security)) as node:
        assert node.node.http is not None
        gate = node.node.http.door.asking._gate
        assert gate is not None
        gate.authorizer = OnlyOwnTopics()
        node.node.listener.dispatcher.interceptor = gate.ask
        yield node


def asked(node: ServedNode, who: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
    token = base64.b64encode(f"{who}:secret".encode()).decode()
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return node.ask(method, path, body, {"Authorization": f"Basic {token}", **sent})


def test_nobody_is_let_in_without_a_name_and_the_right_password(guarded: ServedNode) -> None:
    nobody = guarded.post("/produce", {"topic": "alice-1", "value": 1})
    assert (nobody.status, nobody.headers["www-authenticate"][:5]) == (401, "Basic")
    assert guarded.get("/api/v1/topics", Authorization="Basic YWxpY2U6d3Jvbmc=").status == 401
    assert guarded.get("/api/v1/topics", Authorization="Bearer x").status == 401
    assert guarded.get("/health").status == 200


def test_a_caller_may_do_what_its_principal_may(guarded: ServedNode) -> None:
    assert asked(guarded, "root", "POST", "/api/v1/topics", {"name": "bob-1"}).status == 201
    assert asked(guarded, "alice", "POST", "/api/v1/topics", {"name": "alice-1", "partitions": 1}).status == 201

    assert asked(guarded, "alice", "POST", "/produce", {"topic": "alice-1", "value": 1}).status == 200
    assert asked(guarded, "alice", "GET", "/consume?topic=alice-1").json["messages"][0]["value"] == 1
    for key in ({}, {"Idempotency_Key": "x"}):
        refused = asked(guarded, "alice", "POST", "/produce", {"topic": "bob-1", "value": 1}, **key)
        assert (refused.status, refused.json["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert asked(guarded, "alice", "GET", "/consume?topic=bob-1&partition=0").status == 403
    listed = asked(guarded, "alice", "GET", "/api/v1/topics").json["topics"]
    assert [topic["name"] for topic in listed] == ["alice-1"]
    assert asked(guarded, "alice", "POST", "/subscribe", {"group": "g", "topics": ["alice-1"]}).status == 403
    assert asked(guarded, "alice", "DELETE", "/api/v1/topics/bob-1").status in (403, 404)
    keyed = asked(guarded, "alice", "POST", "/produce", {"topic": "alice-1", "value": 2}, Idempotency_Key="x")
    assert keyed.status == 200
