"""Guessing passwords over real sockets: bounded for one address, without effect on another."""

from __future__ import annotations

import base64
import http.client
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import TIMEOUT_S, ServedNode, node_settings, served
from tests.servers.kafka.raw import RawClient

from qanat.broker.security.user_credentials import credential_of
from qanat.cluster.credentials import decide_upsert
from qanat.connection.sasl import dialogue
from qanat.model.error_codes import ErrorCode
from qanat.security import login_limits, scram
from qanat.security.settings import SecuritySettings
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

MECHANISMS = ("PLAIN", "SCRAM-SHA-256")
ELSEWHERE = "127.0.0.2"
REFUSED = "Authentication failed: too many failed logins from this address, try again in "


def secured(tmp_path: Path, **settings: Any) -> Iterator[ServedNode]:
    passwords = tmp_path / "passwords"
    passwords.write_text("alice:secret\n")
    passwords.chmod(0o600)
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms=",".join(MECHANISMS),
        sasl_plain_credentials_file=str(passwords),
        **settings,
    )
    with served(replace(node_settings(), security=security)) as node:
        verifier = scram.verifier_of(MECHANISMS[1], "secret", b"salt" * 4, 4096)
        plan = decide_upsert("alice", MECHANISMS[1], credential_of(verifier))
        assert node.run(node.node.broker.metadata.commit(plan.compares, plan.operations))
        yield node


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedNode]:
    """A broker whose waits are longer than a test."""
    monkeypatch.setattr(login_limits, "FIRST_WAIT_S", 60.0)
    yield from secured(tmp_path)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[ServedNode]:
    yield from secured(
        tmp_path, login_timeout_ms=2000, max_unauthenticated_connections=2, sasl_server_max_receive_size=1000
    )


def begun(node: ServedNode, mechanism: str, version: int = 1, source: str = "") -> RawClient:
    client = RawClient(node.node.address, source=source)
    assert client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism)).error_code == 0
    return client


def login(node: ServedNode, mechanism: str, user: str, password: str, source: str = "") -> tuple[int, str | None]:
    """Error code and message of the last answer."""
    with begun(node, mechanism, source=source) as client:
        spoken = dialogue(mechanism, user, password, "nonce")
        token: bytes | None = spoken.begin()
        while token is not None:
            answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
            if answer.error_code:
                break
            token = spoken.step(bytes(answer.auth_bytes))
        return answer.error_code, answer.error_message


def basic(node: ServedNode, user: str, password: str, source: str = "127.0.0.1") -> tuple[int, str | None]:
    """Status and Retry-After of an answer over HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, TIMEOUT_S, source_address=(source, 0))
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    try:
        connection.request("GET", "/api/v1/topics", headers={"Authorization": f"Basic {token}"})
        answer = connection.getresponse()
        return answer.status, answer.headers["Retry-After"]
    finally:
        connection.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_after_five_failures_a_user_has_to_wait_at_that_address_only(node: ServedNode, mechanism: str) -> None:
    usual = (ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: invalid credentials")
    for number in range(5):
        assert login(node, mechanism, "alice", f"guess-{number}") == usual

    code, message = login(node, mechanism, "alice", "secret")
    assert (code, (message or "").startswith(REFUSED)) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
    assert login(node, mechanism, "alice", "secret", ELSEWHERE) == (0, None)
    assert basic(node, "alice", "secret")[0] == 429
    assert basic(node, "alice", "secret", ELSEWHERE)[0] == 200
    assert node.node.broker.counters.logins_refused == 2


def test_bare_tokens_are_limited_as_well(node: ServedNode) -> None:
    token = b"\0alice\0guess"
    for _ in range(7):
        with begun(node, "PLAIN", version=0) as client:
            client.send_bytes(struct.pack(">i", len(token)) + token)
            with pytest.raises(EOFError):
                client.receive_bytes()

    assert node.node.listener.counters.not_authenticated == 5
    assert node.node.broker.counters.logins_refused == 2


def test_an_address_that_goes_on_guessing_is_closed_unread_and_others_are_served(
    node: ServedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_limits, "REFUSALS_PER_S", 0.01)  # Longer than the test; the first one is answered.
    for number in range(5):
        login(node, "PLAIN", "alice", f"guess-{number}")
    answered = sum(_is_answered(node) for _ in range(20))
    assert answered == 1
    assert node.node.broker.counters.logins_refused == 20
    assert login(node, "PLAIN", "alice", "secret", ELSEWHERE) == (0, None)


def _is_answered(node: ServedNode) -> bool:
    with RawClient(node.node.address) as client:
        try:
            client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0guess"))
        except (EOFError, ConnectionError):
            return False
        return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_guesses_over_many_names_at_once_are_evaluated_a_few_times_a_second(node: ServedNode, mechanism: str) -> None:
    guesses = 60
    with ExitStack() as open_clients:
        clients = [open_clients.enter_context(begun(node, mechanism)) for _ in range(guesses)]
        spoken = [dialogue(mechanism, f"user-{number}", "guess", "nonce") for number in range(guesses)]
        tokens: list[bytes | None] = [one.begin() for one in spoken]
        if mechanism != "PLAIN":
            # All challenges are there before the first failure.
            for client, one, number in zip(clients, spoken, range(guesses), strict=True):
                answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(tokens[number] or b""))
                tokens[number] = one.step(bytes(answer.auth_bytes))
        began = time.monotonic()
        for client, token in zip(clients, tokens, strict=True):
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token or b""))
        codes = [client.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code for client in clients]
        took_s = time.monotonic() - began

    assert codes == [ErrorCode.SASL_AUTHENTICATION_FAILED] * guesses
    evaluated = node.node.listener.counters.not_authenticated
    assert 5 <= evaluated <= 5 + 5 * took_s
    assert evaluated + node.node.broker.counters.logins_refused == guesses
    assert login(node, mechanism, "alice", "secret", ELSEWHERE) == (0, None)


def test_a_guess_over_http_that_is_refused_computes_nothing(node: ServedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, compute = [], scram.verifier_of

    def count(mechanism: str, password: str, salt: bytes, iterations: int) -> scram.ScramVerifier:
        computed.append(password)
        return compute(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram, "verifier_of", count)
    answers = [basic(node, "alice", f"guess-{number}") for number in range(12)]

    assert [status for status, _ in answers] == [401] * 5 + [429] * 7
    assert len(computed) == 5
    assert all(wait is not None and 1 <= int(wait) <= 60 for _, wait in answers[5:])
    assert basic(node, "alice", "secret")[0] == 429
    assert len(computed) == 5


def test_a_user_whose_password_is_remembered_has_to_wait_too(node: ServedNode) -> None:
    assert basic(node, "alice", "secret")[0] == 200
    for number in range(5):
        assert basic(node, "alice", f"guess-{number}")[0] == 401

    assert basic(node, "alice", "secret")[0] == 429


def test_a_client_that_does_not_log_in_is_closed(strict: ServedNode) -> None:
    with begun(strict, "PLAIN") as client, pytest.raises((EOFError, ConnectionError)):
        client.receive_bytes()

    assert strict.node.broker.counters.unauthenticated_closed == 1
    assert strict.node.listener.unauthenticated_count == 0


def test_a_client_that_has_logged_in_is_not_closed(strict: ServedNode) -> None:
    with begun(strict, "PLAIN") as client, begun(strict, "PLAIN") as late:
        token = SaslAuthenticateRequest(b"\0alice\0secret")
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, token).error_code == 0
        with pytest.raises((EOFError, ConnectionError)):
            late.receive_bytes()
        assert client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers


def test_one_more_unauthenticated_client_closes_the_oldest(tmp_path: Path) -> None:
    for node in secured(tmp_path, max_unauthenticated_connections=2):
        with begun(node, "PLAIN") as oldest, begun(node, "PLAIN") as older, begun(node, "PLAIN") as newest:
            with pytest.raises((EOFError, ConnectionError)):
                oldest.receive_bytes()
            for client in (older, newest):
                token = SaslAuthenticateRequest(b"\0alice\0secret")
                assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, token).error_code == 0


def test_an_unauthenticated_client_cannot_announce_a_large_request_and_a_user_can(strict: ServedNode) -> None:
    with RawClient(strict.node.address) as unknown:
        unknown.send_bytes(struct.pack(">i", 1001))
        with pytest.raises((EOFError, ConnectionError)):
            unknown.receive_bytes()
    with begun(strict, "PLAIN") as client:
        token = SaslAuthenticateRequest(b"\0alice\0secret")
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, token).error_code == 0
        topics = [MetadataRequestTopic(topic_id=ZERO_UUID, name="x" * 200 + str(number)) for number in range(10)]
        assert len(client.ask(ApiKey.METADATA, 12, MetadataRequest(topics)).topics) == 10
