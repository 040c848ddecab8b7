"""Authorization over HTTP: the same as over the Kafka listener, with the same names and passwords."""

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
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    passwords: Path = tmp_path_factory.mktemp("passwords") / "passwords"
    passwords.write_text("alice:secret\nroot:secret\n")
    passwords.chmod(0o600)
    settings = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT", sasl_plain_credentials_file=str(passwords), super_users="User:root"
    )
    with served(replace(node_settings(), security=settings)) as node:
        assert node.node.http is not None
        security = node.node.http.context.gateway._security
        assert security is not None
        security.authorizer = OnlyOwnTopics()
        node.node.listener.dispatcher.interceptor = security.handle
        yield node


def asked(node: ServedNode, who: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
    token = base64.b64encode(f"{who}:secret".encode()).decode()
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return node.call(method, path, body, {"Authorization": f"Basic {token}", **sent})


def test_a_client_needs_a_name_and_the_right_password(authorized: ServedNode) -> None:
    answer = authorized.post("/produce", {"topic": "alice-1", "value": 1})
    assert (answer.status, answer.headers["www-authenticate"][:5]) == (401, "Basic")
    assert authorized.get("/api/v1/topics", Authorization="Basic YWxpY2U6d3Jvbmc=").status == 401
    assert authorized.get("/api/v1/topics", Authorization="Bearer x").status == 401
    assert authorized.get("/health").status == 200


def test_a_caller_may_do_what_its_principal_may(authorized: ServedNode) -> None:
    assert asked(authorized, "root", "POST", "/api/v1/topics", {"name": "bob-1"}).status == 201
    assert asked(authorized, "alice", "POST", "/api/v1/topics", {"name": "alice-1", "partitions": 1}).status == 201

    assert asked(authorized, "alice", "POST", "/produce", {"topic": "alice-1", "value": 1}).status == 200
    assert asked(authorized, "alice", "GET", "/consume?topic=alice-1").json["messages"][0]["value"] == 1
    for key in ({}, {"Idempotency_Key": "x"}):
        refused = asked(authorized, "alice", "POST", "/produce", {"topic": "bob-1", "value": 1}, **key)
        assert (refused.status, refused.json["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert asked(authorized, "alice", "GET", "/consume?topic=bob-1&partition=0").status == 403
    listed = asked(authorized, "alice", "GET", "/api/v1/topics").json["topics"]
    assert [topic["name"] for topic in listed] == ["alice-1"]
    assert asked(authorized, "alice", "POST", "/subscribe", {"group": "g", "topics": ["alice-1"]}).status == 403
    assert asked(authorized, "alice", "DELETE", "/api/v1/topics/bob-1").status in (403, 404)
    keyed = asked(authorized, "alice", "POST", "/produce", {"topic": "alice-1", "value": 2}, Idempotency_Key="x")
    assert keyed.status == 200
