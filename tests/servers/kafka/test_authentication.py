"""A listener that requires authentication: which clients it accepts, and which requests before."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.servers.kafka.raw import RawClient

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0guess"


def secured(tmp_path: Path) -> EmbeddedBroker:
    credentials = tmp_path / "credentials"
    credentials.write_text("alice:secret\n")
    credentials.chmod(0o600)
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "sasl.plain.credentials.file": str(credentials),
    }
    return EmbeddedBroker(settings=settings)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with secured(tmp_path) as broker:
        yield broker


def client_settings(broker: EmbeddedBroker, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": password,
    }


def test_a_real_client_with_the_right_password_produces(broker: EmbeddedBroker) -> None:
    producer = Producer(client_settings(broker, "secret"))
    producer.produce("orders", b"v")

    assert producer.flush(30) == 0
    assert [record.value for record in broker.records("orders")] == [b"v"]


def test_a_real_client_with_a_wrong_one_is_not_let_in(broker: EmbeddedBroker) -> None:
    client = AdminClient(client_settings(broker, "guess"))
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)

    deadline = time.monotonic() + 60
    while not broker.node.listener.counters.not_authenticated:
        assert time.monotonic() < deadline, "nothing was refused"
        time.sleep(0.05)


def test_a_client_without_a_password_is_not_let_in(broker: EmbeddedBroker) -> None:
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=3)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_way_in_by_requests(broker: EmbeddedBroker, version: int) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0
        shaken = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN"])
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(RIGHT))
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
        assert client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers

        again = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers


def test_the_way_in_by_bare_tokens(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN")).error_code == 0
        client.send_bytes(struct.pack(">i", len(RIGHT)) + RIGHT)
        assert client.receive_bytes() == b""
        assert client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers


def test_a_wrong_bare_token_ends_the_connection(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN"))
        client.send_bytes(struct.pack(">i", len(WRONG)) + WRONG)
        with pytest.raises(EOFError):
            client.receive_bytes()


def test_refusals_of_one_broker_do_not_silence_another(
    broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with secured(tmp_path) as other:
        for each in (broker, other):
            with RawClient(each.bootstrap_servers) as client:
                client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
                client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(WRONG))

    assert caplog.text.count("authentication failed") == 2


def test_a_wrong_token_is_answered_late_without_a_reason_and_the_connection_ends(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        began = time.monotonic()
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(WRONG))

        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: invalid credentials"
        assert time.monotonic() - began >= 0.1
        with pytest.raises(EOFError):
            client.receive_bytes()


def test_an_unknown_mechanism_is_refused_with_those_there_are(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        refused = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI"))
        assert (refused.error_code, refused.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])


@pytest.mark.parametrize("is_shaken", [False, True])
@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [
        (ApiKey.METADATA, 12, MetadataRequest(None)),
        (ApiKey.HEARTBEAT, 0, HeartbeatRequest("g", 1, "m")),
        (ApiKey.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(RIGHT)),
        (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")),
        (ApiKey.API_VERSIONS, 0, ApiVersionsRequest()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_nothing_out_of_order_is_answered(
    broker: EmbeddedBroker, key: ApiKey, version: int, request_: object, is_shaken: bool
) -> None:
    allowed = (ApiKey.SASL_AUTHENTICATE,) if is_shaken else (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS)
    with RawClient(broker.bootstrap_servers) as client:
        if is_shaken:
            client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        if key in allowed:
            assert client.ask(key, version, request_) is not None
        else:
            with pytest.raises((EOFError, ConnectionError)):
                client.ask(key, version, request_)


def test_a_plain_listener_answers_as_kafkas_does() -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        shaken = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.enabled.mechanisms": "KERBEROS"}, r"no authenticator 'KERBEROS'; installed are .*PLAIN"),
        ({"sasl.enabled.mechanisms": ","}, r"at least one of sasl\.enabled\.mechanisms"),
        ({}, r"needs sasl\.plain\.credentials\.file"),
        ({"authorizer.class.name": "kafka.security.Acl"}, "no authorizer 'kafka.security.Acl'; installed are"),
        ({"group.consumer.assignors": "uniform,fair"}, "no partition assignor 'fair'; installed are .*range, uniform"),
    ],
)
def test_a_missing_plugin_is_reported_at_start(settings: dict[str, object], message: str) -> None:
    given = {"listener.security.protocol": "SASL_PLAINTEXT", **settings}
    if "sasl" not in str(settings) and settings:
        del given["listener.security.protocol"]
    with pytest.raises(InvalidSettingError, match=message), EmbeddedBroker(settings=given):
        pass
