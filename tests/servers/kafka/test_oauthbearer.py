"""OAUTHBEARER on the wire: real clients with tokens of a real JWKS endpoint, and what forged ones get."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.security.identity_provider import AUDIENCE, JwksServer, KeyPair, provider, settings_of
from tests.servers.client_modules import client_module
from tests.servers.kafka.raw import RawClient

from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError
from qanat.security.settings import SecuritySettings
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

confluent = client_module("confluent_kafka")
rd = client_module("confluent_kafka.admin")
kafka = client_module("kafka")
kafka_errors = client_module("kafka.errors")
kafka_oauth = client_module("kafka.net.sasl.oauth")
aiokafka = client_module("aiokafka")
aiokafka_abc = client_module("aiokafka.abc")
aiokafka_errors = client_module("aiokafka.errors")

WAIT_S = 60
OURS, FOREIGN = KeyPair("ours"), KeyPair("foreign")
REFUSAL = b'{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def server() -> Iterator[JwksServer]:
    with provider(OURS) as server:
        yield server


@pytest.fixture(scope="module")
def broker(server: JwksServer) -> Iterator[EmbeddedBroker]:
    settings = settings_of(server, **{"authorizer.class.name": "StandardAuthorizer", "super.users": "User:alice"})
    with EmbeddedBroker(settings=settings) as broker:
        yield broker


def message(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def login(client: RawClient, token: str, version: int = 2) -> Any:
    assert client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("OAUTHBEARER")).error_code == 0
    return client.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(message(token)))


def is_let_in(broker: EmbeddedBroker, token: str) -> bool:
    with RawClient(broker.bootstrap_servers) as client:
        answer = login(client, token)
        if bytes(answer.auth_bytes) == REFUSAL:
            answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\x01"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            with pytest.raises(EOFError):
                client.receive_bytes()
            return False
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
        return bool(client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers)


# Real clients


def librdkafka(broker: EmbeddedBroker, token: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 3600),
        "log_level": 0,
    }


def test_librdkafka_produces_with_a_token(broker: EmbeddedBroker) -> None:
    producer = confluent.Producer(librdkafka(broker, OURS.token()))
    producer.produce("orders", b"v")

    assert producer.flush(WAIT_S) == 0
    assert [record.value for record in broker.records("orders")] == [b"v"]


def test_librdkafka_is_refused_with_a_forged_token(broker: EmbeddedBroker) -> None:
    errors: list[Any] = []
    client = rd.AdminClient({**librdkafka(broker, FOREIGN.token()), "error_cb": errors.append})
    client.poll(0)
    with pytest.raises(confluent.KafkaException):
        client.list_topics(timeout=5)
    deadline = time.monotonic() + WAIT_S
    while confluent.KafkaError._AUTHENTICATION not in [error.code() for error in errors]:
        assert time.monotonic() < deadline, errors
        client.poll(0.1)


def test_kafka_python_logs_in_and_is_refused(broker: EmbeddedBroker) -> None:
    class Given(kafka_oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]
        def __init__(self, token: str) -> None:
            self._token = token

        def token(self) -> str:
            return self._token

        def extensions(self) -> dict[str, str]:
            return {"traceId": "7"}

    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    admin = kafka.KafkaAdminClient(**settings, sasl_oauth_token_provider=Given(OURS.token()))
    try:
        assert isinstance(admin.list_topics(), list)
    finally:
        admin.close()
    given = Given(OURS.token(lives_s=-100))
    with pytest.raises(kafka_errors.KafkaError):
        kafka.KafkaAdminClient(**settings, sasl_oauth_token_provider=given, bootstrap_timeout_ms=3_000)


def test_aiokafka_produces_and_is_refused(broker: EmbeddedBroker) -> None:
    class Given(aiokafka_abc.AbstractTokenProvider):  # type: ignore[misc, name-defined]
        def __init__(self, token: str) -> None:
            self._token = token

        async def token(self) -> str:
            return self._token

    def producer(token: str) -> Any:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Given(token),
        )

    async def produce() -> None:
        async with producer(OURS.token()) as ours:
            await ours.send_and_wait("aio", b"v")
        forger = producer(FOREIGN.token())
        with pytest.raises(aiokafka_errors.KafkaError):
            await forger.start()
        await forger.stop()

    asyncio.run(produce())
    assert [record.value for record in broker.records("aio")] == [b"v"]


# The exchange


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_session_lasts_as_long_as_the_token(broker: EmbeddedBroker, version: int) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        answer = login(client, OURS.token(lives_s=100), version)

    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    if version:
        assert 90_000 < answer.session_lifetime_ms <= 100_000


def test_bare_tokens_log_in_as_well(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest("OAUTHBEARER"))
        token = message(OURS.token())
        client.send_bytes(struct.pack(">i", len(token)) + token)
        assert client.receive_bytes() == b""
        assert client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers


def test_the_principal_is_that_of_the_token(broker: EmbeddedBroker) -> None:
    def created(name: str) -> list[str]:
        admin = rd.AdminClient(librdkafka(broker, OURS.token(name)))
        admin.poll(0)
        (future,) = admin.create_topics([rd.NewTopic(f"of-{name}", 1)]).values()
        try:
            future.result(WAIT_S)
        except confluent.KafkaException as refused:
            return [refused.args[0].name()]
        return ["created"]

    assert created("alice") == ["created"]
    assert created("bob") == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (OURS.token(lives_s=-31), "expired"),
        (OURS.token(aud="web"), "audience"),
        (OURS.token(aud=None), "audience"),
        (OURS.token(iss="https://evil.example/"), "issuer"),
        (OURS.token(exp=None), "exp"),
        (OURS.token(padding="x" * 12_200), "too long"),
        (OURS.token()[:-6] + "AAAAAA", "signature"),
    ],
)
def test_a_wrong_token_is_refused_and_the_log_says_why(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, token: str, reason: str
) -> None:
    listener = broker.node.listener
    listener._log_not_authenticated._next_s = 0.0  # It logs once in a second.
    before = listener.counters.not_authenticated
    assert not is_let_in(broker, token)

    assert listener.counters.not_authenticated == before + 1
    (shown,) = (record.qanat_fields for record in caplog.records if record.getMessage() == "authentication failed")  # type: ignore[attr-defined]
    assert reason in shown["reason"]
    assert token.rpartition(".")[2] not in str(shown)


def test_a_token_that_names_its_own_keys_fetches_nothing(broker: EmbeddedBroker) -> None:
    with JwksServer() as evil:
        evil.publish(FOREIGN)
        claims = {"sub": "alice", "aud": AUDIENCE, "iss": "https://login.example/", "iat": 1, "exp": 2**40}
        for header in ({"jku": evil.url}, {"x5u": evil.url}, {"jku": evil.url, "kid": OURS.key_id}):
            assert not is_let_in(broker, FOREIGN.sign(claims, **header))
        assert evil.paths == []


# Keys


def test_a_rotated_key_is_fetched_at_the_first_token_that_needs_it() -> None:
    old, new = KeyPair("old", "ES256"), KeyPair("new", "ES256")
    with provider(old) as server, EmbeddedBroker(settings=settings_of(server)) as broker:
        assert is_let_in(broker, old.token())
        server.publish(new)
        assert is_let_in(broker, new.token())
        assert not is_let_in(broker, old.token())
        assert len(server.paths) == 2


def test_tokens_with_unknown_keys_do_not_flood_the_provider() -> None:
    with provider(OURS) as server, EmbeddedBroker(settings=settings_of(server)) as broker:
        assert is_let_in(broker, OURS.token())
        for number in range(5):
            assert not is_let_in(broker, KeyPair(f"junk-{number}", "EdDSA").token())
        assert len(server.paths) == 2


def test_known_keys_outlive_an_outage_of_the_provider() -> None:
    more = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": 20, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": 20}
    with provider(OURS) as server, EmbeddedBroker(settings=settings_of(server, **more)) as broker:
        assert is_let_in(broker, OURS.token())
        server.status, server.body = 503, b""
        failed = len(server.paths)
        wait_until(lambda: len(server.paths) > failed + 3)
        assert is_let_in(broker, OURS.token())
        assert not is_let_in(broker, FOREIGN.token())
        server.status = 200
        server.publish(FOREIGN)
        wait_until(lambda: is_let_in(broker, FOREIGN.token()))


def test_keys_that_are_too_old_let_no_one_in() -> None:
    more = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": 20, "sasl.oauthbearer.jwks.endpoint.stale.max.ms": 400}
    with provider(OURS) as server, EmbeddedBroker(settings=settings_of(server, **more)) as broker:
        assert is_let_in(broker, OURS.token())
        server.status, server.body = 503, b""
        wait_until(lambda: not is_let_in(broker, OURS.token()))
        server.status = 200
        server.publish(OURS)
        wait_until(lambda: is_let_in(broker, OURS.token()))


def test_a_provider_that_is_down_at_start_does_not_hold_the_broker() -> None:
    with provider(OURS) as server:
        server.status = 500
        more = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": 20}
        with EmbeddedBroker(settings=settings_of(server, **more)) as broker:
            assert not is_let_in(broker, OURS.token())
            server.status = 200
            wait_until(lambda: is_let_in(broker, OURS.token()))


def test_a_login_that_waits_for_keys_holds_no_other_client() -> None:
    over = threading.Event()

    def hold(request: BaseHTTPRequestHandler) -> None:
        over.wait(WAIT_S)
        request.send_response(200)
        request.end_headers()
        request.wfile.write(slow.body)

    with provider(OURS) as slow:
        slow.respond = hold
        settings = settings_of(
            slow,
            **{
                "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
                "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:PLAINTEXT",
            },
        )
        del settings["listener.security.protocol"]
        with EmbeddedBroker(settings=settings) as broker:
            ports = broker.node.listener.ports
            with RawClient(f"127.0.0.1:{ports['A']}") as waiting, RawClient(f"127.0.0.1:{ports['B']}") as other:
                waiting.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("OAUTHBEARER"))
                waiting.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(message(OURS.token())))
                assert other.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers
                over.set()
                assert waiting.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code == 0


def wait_until(is_so: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline


# Settings


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///etc/keys.json"}, "should be a URL of https or http"),
        ({"sasl.oauthbearer.jwks.endpoint.url": ""}, r"needs sasl\.oauthbearer\.jwks\.endpoint\.url"),
        ({"sasl.oauthbearer.clock.skew.seconds": -1}, "at least 0"),
    ],
)
def test_a_wrong_setting_is_reported_at_start(server: JwksServer, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason), EmbeddedBroker(settings=settings_of(server, **settings)):
        pass


OAUTH = [name for name in SecuritySettings.__struct_encode_fields__ if name.startswith("sasl.oauthbearer.")]


@pytest.mark.parametrize("name", [*OAUTH, "listener.name.clients.sasl.oauthbearer.jwks.endpoint.url"])
def test_no_client_changes_where_keys_come_from(broker: EmbeddedBroker, name: str) -> None:
    assert name not in DYNAMIC
    change = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(4, str(broker.node.node_id), [AlterableConfig(name, 0, "http://evil.example/")])]
    )
    with RawClient(broker.bootstrap_servers) as client:
        login(client, OURS.token())
        (row,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, change).responses
        assert row.error_code == ErrorCode.INVALID_REQUEST


def test_a_listener_has_a_provider_of_its_own() -> None:
    with provider(OURS) as server, provider(FOREIGN) as other:
        settings = {
            **settings_of(server),
            "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
            "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
            "listener.name.b.sasl.oauthbearer.jwks.endpoint.url": other.url,
        }
        del settings["listener.security.protocol"]
        with EmbeddedBroker(settings=settings) as broker:
            for name, pair in (("A", OURS), ("B", FOREIGN)):
                with RawClient(f"127.0.0.1:{broker.node.listener.ports[name]}") as client:
                    answer = login(client, pair.token())
                    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
