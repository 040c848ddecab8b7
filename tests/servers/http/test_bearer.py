"""`Authorization: Bearer`: tokens of an identity provider over HTTP, and streams that end with their token."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.security.identity_provider import AUDIENCE, ISSUER, JwksServer, KeyPair, provider
from tests.servers.http.serving import Answer, ServedNode, node_settings, served
from tests.servers.http.test_server_sent_events import Events

from qanat.security.settings import SecuritySettings

OURS, FOREIGN = KeyPair("ours", "ES256"), KeyPair("foreign", "ES256")


def security(server: JwksServer, mechanisms: str, passwords: Path | None = None) -> SecuritySettings:
    return SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms=mechanisms,
        sasl_plain_credentials_file=None if passwords is None else str(passwords),
        sasl_oauthbearer_jwks_endpoint_url=server.url,
        sasl_oauthbearer_expected_audience=AUDIENCE,
        sasl_oauthbearer_expected_issuer=ISSUER,
        authorizer_class_name="StandardAuthorizer",
        super_users="User:alice",
    )


@pytest.fixture(scope="module")
def server() -> Iterator[JwksServer]:
    with provider(OURS) as server:
        yield server


@pytest.fixture(scope="module")
def node(server: JwksServer) -> Iterator[ServedNode]:
    with served(replace(node_settings(), security=security(server, "OAUTHBEARER"))) as node:
        yield node


def asked(node: ServedNode, token: str, path: str = "/api/v1/topics") -> Answer:
    return node.get(path, Authorization=f"Bearer {token}")


def test_a_token_lets_in_and_its_principal_decides(node: ServedNode) -> None:
    created = node.post("/api/v1/topics", {"name": "orders"}, Authorization=f"Bearer {OURS.token()}")
    assert created.status == 201
    assert [topic["name"] for topic in asked(node, OURS.token()).json["topics"]] == ["orders"]
    assert asked(node, OURS.token("bob")).json["topics"] == []
    refused = node.post("/api/v1/topics", {"name": "more"}, Authorization=f"Bearer {OURS.token('bob')}")
    assert (refused.status, refused.json["principal"]) == (403, "User:bob")


@pytest.mark.parametrize(
    "token",
    [
        OURS.token(lives_s=-31),
        OURS.token(aud="web"),
        OURS.token(iss=None),
        FOREIGN.token(),
        OURS.token()[:-8] + "A" * 8,
    ],
)
def test_a_wrong_token_gets_401_late_and_without_a_reason(node: ServedNode, token: str) -> None:
    began = time.monotonic()
    answer = asked(node, token)
    assert time.monotonic() - began >= 0.1
    assert (answer.status, answer.json["detail"]) == (401, "the token is not valid here")
    assert answer.headers["www-authenticate"] == 'Bearer realm="qanat", error="invalid_token"'


@pytest.mark.parametrize("authorization", ["Bearer", "Bearer ", "Bearer a b", "Basic YWxpY2U6c2VjcmV0", "Digest x"])
def test_another_authorization_is_refused(node: ServedNode, authorization: str) -> None:
    answer = node.get("/api/v1/topics", Authorization=authorization)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="qanat"')


def test_a_client_without_one_learns_what_to_send(node: ServedNode) -> None:
    answer = node.get("/api/v1/topics")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="qanat"')
    assert "Authorization: Bearer" in answer.json["detail"]
    assert node.get("/health").status == 200


def test_a_remembered_token_does_not_outlive_its_end(node: ServedNode) -> None:
    token = OURS.token(lives_s=100)
    assert asked(node, token).status == 200
    assert node.node.http is not None
    remembered = node.node.http.context.authentication._tokens
    before = dict(remembered)
    assert asked(node, token).status == 200
    assert remembered == before

    digest, (until_s, accepted) = next(reversed(remembered.items()))
    remembered[digest] = until_s, replace(accepted, expires_at_s=time.time() - 1)
    assert asked(node, token).status == 200
    # It was not taken from memory: the token itself has not ended.
    assert remembered[digest][1].expires_at_s == accepted.expires_at_s


def test_a_stream_ends_with_its_token(node: ServedNode) -> None:
    alice = f"Bearer {OURS.token()}"
    assert node.post("/api/v1/topics", {"name": "news", "partitions": 1}, Authorization=alice).status == 201
    # It is accepted while it lasts; the clock skew does not prolong a stream.
    short = f"Bearer {OURS.token(exp=time.time() + 1.5)}"
    with closing(Events(node, "/api/v1/topics/news/stream", Authorization=short)) as events:
        assert events.next()["event"] == "open"
        last = {}
        for number in range(10_000):
            node.post("/produce", {"topic": "news", "value": number}, Authorization=alice)
            last = events.next()
            if last.get("event") == "problem":
                break
            assert json.loads(last["data"])["value"] == number
        assert json.loads(last["data"])["status"] == 401
        assert "expired" in last["data"]
        assert events.response.read() == b""


def test_passwords_and_tokens_are_taken_side_by_side(server: JwksServer, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("alice:secret\n")
    passwords.chmod(0o600)
    settings = security(server, "PLAIN,OAUTHBEARER", passwords)
    with served(replace(node_settings(), security=settings)) as both:
        basic = base64.b64encode(b"alice:secret").decode()
        assert both.get("/api/v1/topics", Authorization=f"Basic {basic}").status == 200
        assert asked(both, OURS.token()).status == 200
        assert asked(both, FOREIGN.token()).status == 401
        answer = both.get("/api/v1/topics")
        assert "Basic, Bearer, or an API key" in answer.json["detail"]
