"""SCRAM on the wire: users are made by real administration clients, and real clients log in as them."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.client_modules import client_module
from tests.servers.kafka.raw import RawClient

from qanat.connection.sasl import ScramDialogue
from qanat.model.error_codes import ErrorCode
from qanat.security.scram import salted_password
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from qanat.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

confluent = client_module("confluent_kafka")
rd = client_module("confluent_kafka.admin")
kafka = client_module("kafka")
kafka_errors = client_module("kafka.errors")
aiokafka = client_module("aiokafka")
aiokafka_errors = client_module("aiokafka.errors")

WAIT_S = 60
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    credentials: Path = tmp_path_factory.mktemp("scram") / "credentials"
    credentials.write_text("admin:secret\nguest:secret\n")
    credentials.chmod(0o600)
    settings = {
        "listener.security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.plain.credentials.file": str(credentials),
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:admin;User:alice",
        "login.failures.per.user": 0,  # Wrong passwords of one name are most of these tests.
    }
    with EmbeddedBroker(settings=settings) as broker:
        yield broker


def login(broker: EmbeddedBroker, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.fixture(scope="module")
def alice(broker: EmbeddedBroker) -> str:
    """A user with both mechanisms, made by librdkafka; returns her password."""
    admin = rd.AdminClient(login(broker, "PLAIN", "admin", "secret"))
    for mechanism in (rd.ScramMechanism.SCRAM_SHA_256, rd.ScramMechanism.SCRAM_SHA_512):
        upsertion = rd.UserScramCredentialUpsertion("alice", rd.ScramCredentialInfo(mechanism, 4096), b"wonder,=land")
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(WAIT_S)
    return "wonder,=land"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(broker: EmbeddedBroker, alice: str, mechanism: str) -> None:
    errors: list[Any] = []
    client = rd.AdminClient({**login(broker, mechanism, "alice", alice), "error_cb": errors.append})

    assert client.list_topics(timeout=WAIT_S).brokers
    assert errors == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_librdkafka_is_refused_alike_with_a_wrong_password_and_an_unknown_name(
    broker: EmbeddedBroker, alice: str, mechanism: str, user: str
) -> None:
    errors: list[Any] = []
    client = rd.AdminClient({**login(broker, mechanism, user, "guess"), "error_cb": errors.append})
    with pytest.raises(confluent.KafkaException):
        client.list_topics(timeout=5)
    deadline = time.monotonic() + WAIT_S
    while confluent.KafkaError._AUTHENTICATION not in [error.code() for error in errors]:
        assert time.monotonic() < deadline, errors
        client.poll(0.1)
    assert any("Authentication failed: invalid credentials" in error.str() for error in errors)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_and_is_refused(broker: EmbeddedBroker, alice: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
    }
    admin = kafka.KafkaAdminClient(**settings, sasl_plain_password=alice)
    try:
        assert isinstance(admin.list_topics(), list)
    finally:
        admin.close()
    with pytest.raises(kafka_errors.KafkaError):
        kafka.KafkaAdminClient(**settings, sasl_plain_password="guess", bootstrap_timeout_ms=3_000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_and_is_refused(broker: EmbeddedBroker, alice: str, mechanism: str) -> None:
    async def produce(user: str, password: str) -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            return int((await producer.send_and_wait("from-aio", b"x")).offset)
        finally:
            await producer.stop()

    broker.create_topic("from-aio") if "from-aio" not in broker.topics() else None
    assert asyncio.run(produce("alice", alice)) >= 0
    for user in ("alice", "nobody"):
        with pytest.raises(aiokafka_errors.KafkaError):
            asyncio.run(produce(user, "guess"))


class Login:
    """A raw client in the middle of an exchange."""

    def __init__(self, broker: EmbeddedBroker, mechanism: str, user: str, password: str) -> None:
        self.client = RawClient(broker.bootstrap_servers)
        self.client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism))
        hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self.speaking = ScramDialogue(hash_name, user, password, "client-nonce")
        self.challenge = self.say(self.speaking.begin())
        final = self.speaking.step(bytes(self.challenge.auth_bytes))
        assert final is not None
        self.final = final

    def say(self, token: bytes) -> Any:
        return self.client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))


def test_an_unknown_user_is_challenged_like_a_known_one(broker: EmbeddedBroker, alice: str) -> None:
    def challenge(user: str) -> dict[str, str]:
        login = Login(broker, "SCRAM-SHA-256", user, "guess")
        with login.client:
            parts = bytes(login.challenge.auth_bytes).decode().split(",")
        return {part[0]: part[2:] for part in parts}

    known, unknown, again = challenge("alice"), challenge("nobody"), challenge("nobody")
    assert known["i"] == unknown["i"] == "4096"
    assert unknown["s"] == again["s"]
    assert unknown["r"] != again["r"]
    assert len(base64.b64decode(unknown["s"])) >= 16


@pytest.mark.parametrize("change", ["nonce", "proof", "binding", "replay"])
def test_an_altered_final_message_is_answered_late_without_a_reason(
    broker: EmbeddedBroker, alice: str, change: str
) -> None:
    login = Login(broker, "SCRAM-SHA-256", "alice", alice)
    parts = {part[0]: part[2:] for part in login.final.decode().split(",")}
    if change == "nonce":
        parts["r"] = parts["r"][:-1] + ("A" if parts["r"][-1] != "A" else "B")
    elif change == "proof":
        parts["p"] = base64.b64encode(bytes(32)).decode()
    elif change == "binding":
        parts["c"] = base64.b64encode(b"y,,").decode()
    else:
        with Login(broker, "SCRAM-SHA-256", "alice", alice).client:
            earlier = Login(broker, "SCRAM-SHA-256", "alice", alice)
        with earlier.client:
            assert earlier.say(earlier.final).error_code == 0
        parts = {part[0]: part[2:] for part in earlier.final.decode().split(",")}
    with login.client:
        began = time.monotonic()
        answer = login.say(",".join(f"{name}={value}" for name, value in parts.items()).encode())
        took = time.monotonic() - began
        with pytest.raises(EOFError):
            login.client.receive_bytes()

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: invalid credentials"
    assert took >= 0.1


def test_a_new_password_holds_for_the_next_login(broker: EmbeddedBroker) -> None:
    def set_password(password: str) -> None:
        salt = b"0123456789abcdef"
        salted = salted_password("SCRAM-SHA-256", password, salt, 4096)
        assert alter(broker, upsertions=[ScramCredentialUpsertion("carol", 1, 4096, salt, salted)]) == {"carol": 0}

    def code(password: str) -> int:
        login = Login(broker, "SCRAM-SHA-256", "carol", password)
        with login.client:
            return int(login.say(login.final).error_code)

    set_password("one")
    assert (code("one"), code("two")) == (0, ErrorCode.SASL_AUTHENTICATION_FAILED)
    set_password("two")
    assert (code("one"), code("two")) == (ErrorCode.SASL_AUTHENTICATION_FAILED, 0)
    assert alter(broker, deletions=[ScramCredentialDeletion("carol", 1)]) == {"carol": 0}
    assert code("two") == ErrorCode.SASL_AUTHENTICATION_FAILED


def administrator(broker: EmbeddedBroker, user: str = "admin") -> RawClient:
    client = RawClient(broker.bootstrap_servers)
    client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    token = f"\0{user}\0secret".encode()
    assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token)).error_code == 0
    return client


def alter(broker: EmbeddedBroker, user: str = "admin", **changes: Any) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(**{"deletions": [], "upsertions": [], **changes})
    with administrator(broker, user) as client:
        answer = client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {row.user: row.error_code for row in answer.results}


def upsertion(name: str = "dave", **fields: Any) -> ScramCredentialUpsertion:
    made = ScramCredentialUpsertion(name, 1, 4096, b"salt", bytes(32))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"upsertions": [upsertion(iterations=4095)]}, {"dave": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
        ({"upsertions": [upsertion(iterations=16385)]}, {"dave": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
        ({"upsertions": [upsertion(mechanism=3)]}, {"dave": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
        ({"upsertions": [upsertion(name="")]}, {"": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
        ({"upsertions": [upsertion(salt=b"")]}, {"dave": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
        ({"upsertions": [upsertion(salted_password=b"short")]}, {"dave": ErrorCode.UNACCEPTABLE_CREDENTIAL}),
        ({"upsertions": [upsertion(), upsertion(mechanism=2)]}, {"dave": ErrorCode.DUPLICATE_RESOURCE}),
        (
            {"deletions": [ScramCredentialDeletion("dave", 1)], "upsertions": [upsertion()]},
            {"dave": ErrorCode.DUPLICATE_RESOURCE},
        ),
        ({"deletions": [ScramCredentialDeletion("dave", 1)]}, {"dave": ErrorCode.RESOURCE_NOT_FOUND}),
        ({"deletions": [ScramCredentialDeletion("dave", 9)]}, {"dave": ErrorCode.UNSUPPORTED_SASL_MECHANISM}),
    ],
)
def test_a_bad_credential_is_refused_with_kafkas_error(
    broker: EmbeddedBroker, changes: dict[str, Any], expected: dict[str, int]
) -> None:
    assert alter(broker, **changes) == expected


def test_users_are_described_without_their_secrets(broker: EmbeddedBroker, alice: str) -> None:
    with administrator(broker) as client:

        def described(*names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
            request = DescribeUserScramCredentialsRequest([UserName(name) for name in names])
            answer = client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
            assert answer.error_code == 0
            return {
                row.user: (row.error_code, [(info.mechanism, info.iterations) for info in row.credential_infos])
                for row in answer.results
            }

        assert described()["alice"] == (0, [(1, 4096), (2, 4096)])
        assert described("alice", "nobody") == {
            "alice": (0, [(1, 4096), (2, 4096)]),
            "nobody": (ErrorCode.RESOURCE_NOT_FOUND, []),
        }
        assert described("alice", "alice") == {"alice": (ErrorCode.DUPLICATE_RESOURCE, [])}


def test_users_are_for_administrators(broker: EmbeddedBroker) -> None:
    assert alter(broker, "guest", upsertions=[upsertion()]) == {"dave": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    with administrator(broker, "guest") as client:
        answer = client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(None))
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


def test_no_log_line_and_no_repr_holds_a_secret(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    salt, password = b"very-secret-salt", "open-sesame"
    salted = salted_password("SCRAM-SHA-256", password, salt, 4096)
    with caplog.at_level("DEBUG"):
        alter(broker, upsertions=[ScramCredentialUpsertion("eve", 1, 4096, salt, salted)])
        login = Login(broker, "SCRAM-SHA-256", "eve", "open-barley")
        with login.client:
            login.say(login.final)
    credential = broker.node.broker.metadata.image.credentials["eve", "SCRAM-SHA-256"]
    shown = caplog.text + repr(credential) + repr(broker.node.broker.metadata.image.credentials)
    logged = shown + "".join(str(record.__dict__) for record in caplog.records)

    assert "user credential set" in caplog.text
    for secret in (password, "open-barley", "very-secret-salt", salted.hex(), base64.b64encode(salted).decode()):
        assert secret not in logged
    assert base64.b64encode(credential.stored_key).decode() not in logged
    assert str(credential.server_key) not in logged
