"""Authorization over HTTP: the same as over the Kafka listener, with the same names and passwords."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import Answer, ServedNode, node_settings, served

from qanat.api.interceptor import authorize
from qanat.broker.security.user_credentials import credential_of
from qanat.cluster import keys
from qanat.cluster.credentials import decide_upsert
from qanat.cluster.store import Put
from qanat.cluster.values import ReplicaFault, ReplicaFaults, encode
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.security.scram import verifier_of
from qanat.security.settings import SecuritySettings
from qanat.servers.listener_security import ListenerSecurity


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
        gateway = node.node.http.context.gateway
        gateway.security = ListenerSecurity(authorizer=OnlyOwnTopics(), super_users=("User:root",))
        node.node.listener.dispatcher.interceptor = authorize
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


def test_health_names_topics_only_to_those_who_may_describe_them(authorized: ServedNode) -> None:
    for name in ("alice-bad", "bob-bad"):
        assert asked(authorized, "root", "POST", "/api/v1/topics", {"name": name, "partitions": 1}).status == 201
    metadata = authorized.node.broker.metadata
    image = metadata.image
    faults = tuple(ReplicaFault(image.topics[name].topic_id, 0, ((0, 1),)) for name in ("alice-bad", "bob-bad"))
    report = ReplicaFaults(broker_epoch=image.broker_epochs[0], faults=faults)
    authorized.run(metadata.commit([], [Put(keys.replica_faults(0), encode(report))]))

    def degraded(who: str) -> list[str]:
        return [one["topic"] for one in asked(authorized, who, "GET", "/health").json["degraded"]]

    assert authorized.get("/health").json == {"status": "DEGRADED", "live": True, "ready": True}
    assert sorted(degraded("root")) == ["alice-bad", "bob-bad"]
    assert degraded("alice") == ["alice-bad"]
    assert authorized.get("/health", Authorization="Basic YWxpY2U6d3Jvbmc=").status == 401
    for name in ("alice-bad", "bob-bad"):
        assert asked(authorized, "root", "DELETE", f"/api/v1/topics/{name}").status == 200


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


def test_a_denial_names_the_operation_and_the_resource_and_the_rule_that_is_missing(authorized: ServedNode) -> None:
    asked(authorized, "root", "POST", "/api/v1/topics", {"name": "bob-2"})
    refused = asked(authorized, "alice", "POST", "/produce", {"topic": "bob-2", "value": 1})

    assert refused.status == 403
    named = {key: refused.json[key] for key in ("principal", "operation", "resource_type", "resource")}
    assert named == {"principal": "User:alice", "operation": "WRITE", "resource_type": "TOPIC", "resource": "bob-2"}
    assert "User:alice may not WRITE topic 'bob-2'" in refused.json["detail"]
    assert "qanat acl add --principal User:alice --operation write --topic bob-2" in refused.json["detail"]


def test_a_wrong_password_is_answered_late(authorized: ServedNode) -> None:
    began = time.monotonic()
    assert authorized.get("/api/v1/topics", Authorization="Basic YWxpY2U6d3Jvbmc=").status == 401
    assert time.monotonic() - began >= 0.1


def test_users_of_scram_log_in_by_http_as_well(tmp_path: Path) -> None:
    settings = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:carol",
    )
    with served(replace(node_settings(), security=settings)) as node:

        def set_password(password: str) -> None:
            verifier = verifier_of("SCRAM-SHA-512", password, b"0123456789abcdef", 4096)
            plan = decide_upsert("carol", "SCRAM-SHA-512", credential_of(verifier))
            node.run(node.node.broker.metadata.commit(plan.compares, plan.operations))

        def status(name: str, password: str) -> int:
            token = base64.b64encode(f"{name}:{password}".encode()).decode()
            return node.get("/api/v1/topics", Authorization=f"Basic {token}").status

        set_password("one")
        assert [status("carol", "one"), status("carol", "one")] == [200, 200]
        assert [status("carol", "two"), status("nobody", "one"), status("carol", "")] == [401, 401, 401]
        set_password("two")
        assert [status("carol", "one"), status("carol", "two")] == [401, 200]
