"""Sessions that end: authentication again on an open connection (KIP-368), and what happens to a client without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.identity_provider import KeyPair, provider, settings_of
from tests.servers.client_modules import client_module
from tests.servers.kafka.raw import RawClient

from qanat.connection.deadline import Deadline
from qanat.connection.link import Link
from qanat.connection.security import security_of
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.connection import NEVER_S, KafkaConnection
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

confluent = client_module("confluent_kafka")
kafka = client_module("kafka")

ALICE, BOB = b"\0alice\0secret", b"\0bob\0secret"
HOUR_MS = 3_600_000
WAIT_S = 60.0
MECHANISMS = "PLAIN,SCRAM-SHA-256"


def secured(folder: Path, **more: object) -> EmbeddedBroker:
    credentials = folder / "credentials"
    credentials.write_text("alice:secret\nbob:secret\n")
    credentials.chmod(0o600)
    return EmbeddedBroker(
        settings={
            "listener.security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISMS,
            "sasl.plain.credentials.file": str(credentials),
            **more,
        }
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with secured(tmp_path_factory.mktemp("reauth"), **{"connections.max.reauth.ms": HOUR_MS}) as broker:
        yield broker


def shake(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))


def say(client: RawClient, token: bytes, version: int = 2) -> Any:
    return client.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))


def login(client: RawClient, token: bytes = ALICE) -> Any:
    assert shake(client).error_code == 0
    answer = say(client, token)
    assert answer.error_code == 0
    return answer


def serves(client: RawClient) -> bool:
    return bool(client.ask(ApiKey.METADATA, 12, MetadataRequest([])).brokers)


def connection_of(broker: EmbeddedBroker, client: RawClient) -> KafkaConnection:
    host, port = client._socket.getsockname()
    (found,) = (one for one in broker.node.listener._connections if one.peer == f"{host}:{port}")
    return found


def end_session(broker: EmbeddedBroker, client: RawClient) -> None:
    """As if its time were over."""
    connection_of(broker, client).session_end_s = 0.0


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_learns_how_long_its_session_lasts(broker: EmbeddedBroker, version: int) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        shake(client)
        assert say(client, ALICE, version).session_lifetime_ms == HOUR_MS


def test_a_session_without_a_limit_has_no_end_and_is_not_renewed(tmp_path: Path) -> None:
    with secured(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert login(client).session_lifetime_ms == 0
        assert connection_of(broker, client).session_end_s == NEVER_S
        assert shake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert say(client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert serves(client)


def test_a_client_authenticates_again_and_its_requests_are_served_meanwhile(broker: EmbeddedBroker) -> None:
    counters = broker.node.listener.counters
    before, refused = counters.renewed, counters.not_authenticated
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        connection = connection_of(broker, client)
        connection.session_end_s = first = connection.session_end_s - 1000
        assert shake(client).error_code == 0
        assert serves(client)
        assert say(client, ALICE).session_lifetime_ms == HOUR_MS

        assert connection.session_end_s > first + 900
        assert (counters.renewed, counters.not_authenticated) == (before + 1, refused)
        assert serves(client)
        login(client)
        assert counters.renewed == before + 2


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_client_cannot_become_another_one(broker: EmbeddedBroker, is_expired: bool) -> None:
    before = broker.node.listener.counters.not_authenticated
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        connection = connection_of(broker, client)
        if is_expired:
            end_session(broker, client)
        shake(client)
        answer = say(client, BOB)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert str(connection.principal) == "User:alice"
        with pytest.raises(EOFError):
            client.receive_bytes()
    assert broker.node.listener.counters.not_authenticated == before + 1


def test_a_wrong_password_ends_the_connection(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        shake(client)
        assert say(client, b"\0alice\0guess").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(EOFError):
            client.receive_bytes()


def test_a_client_keeps_its_mechanism(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        other = shake(client, "SCRAM-SHA-256")
        assert (other.error_code, other.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
        assert say(client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert shake(client, version=0).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert serves(client)


@pytest.mark.parametrize("is_shaken", [False, True])
def test_a_session_that_has_ended_is_closed_by_its_next_request(broker: EmbeddedBroker, is_shaken: bool) -> None:
    before = broker.node.listener.counters.expired
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        end_session(broker, client)
        if is_shaken:
            assert shake(client).error_code == 0
        with pytest.raises((EOFError, ConnectionError)):
            serves(client)
    assert broker.node.listener.counters.expired == before + 1


def test_requests_behind_the_one_that_came_too_late_are_not_handled(broker: EmbeddedBroker) -> None:
    counters = broker.node.listener.counters
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        end_session(broker, client)
        expired, asked = counters.expired, counters.by_api[ApiKey.METADATA].requests
        with pytest.raises((EOFError, ConnectionError)):  # noqa: PT012 - it may be closed while we still send
            for _ in range(5):
                client.send(ApiKey.METADATA, 12, MetadataRequest([]))
            client.receive_bytes()
    assert counters.by_api[ApiKey.METADATA].requests == asked
    assert counters.expired == expired + 1


def test_a_session_that_has_ended_can_be_renewed(broker: EmbeddedBroker) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        login(client)
        end_session(broker, client)
        login(client)
        assert serves(client)


def test_the_fast_path_of_produce_closes_it_as_well(broker: EmbeddedBroker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "log_level": 0,
    }
    producer = confluent.Producer(settings)
    producer.produce("orders", b"1")
    assert producer.flush(WAIT_S) == 0
    before = broker.node.listener.counters.expired
    for connection in list(broker.node.listener._connections):
        connection.session_end_s = 0.0
    producer.produce("orders", b"2")

    # The client connects again, and sends it there.
    assert producer.flush(WAIT_S) == 0
    assert broker.node.listener.counters.expired > before
    assert sorted(record.value or b"" for record in broker.records("orders")) == [b"1", b"2"]


def test_the_listener_has_its_own_limit(tmp_path: Path) -> None:
    more = {
        "connections.max.reauth.ms": HOUR_MS,
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
        "listener.name.b.connections.max.reauth.ms": 5000,
    }
    credentials = tmp_path / "credentials"
    credentials.write_text("alice:secret\n")
    credentials.chmod(0o600)
    with EmbeddedBroker(settings={"sasl.plain.credentials.file": str(credentials), **more}) as broker:
        lifetimes = {}
        for name, port in broker.node.listener.ports.items():
            with RawClient(f"127.0.0.1:{port}") as client:
                lifetimes[name] = login(client).session_lifetime_ms
        assert lifetimes == {"A": HOUR_MS, "B": 5000}


def test_the_shorter_of_token_and_limit_ends_the_session() -> None:
    pair = KeyPair("k", "EdDSA")
    with provider(pair) as server:
        settings = settings_of(server, **{"connections.max.reauth.ms": 50_000})
        with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
            shake(client, "OAUTHBEARER")

            def lifetime_ms(lives_s: float, name: str = "alice") -> int:
                answer = say(client, f"n,,\x01auth=Bearer {pair.token(name, lives_s)}\x01\x01".encode())
                return int(answer.session_lifetime_ms) if not answer.error_code and not answer.auth_bytes else -1

            assert lifetime_ms(100) == 50_000
            shake(client, "OAUTHBEARER")
            assert 0 < lifetime_ms(20) <= 20_000
            shake(client, "OAUTHBEARER")
            assert lifetime_ms(20, "bob") == -1


# Real clients that renew by themselves


def plain(broker: EmbeddedBroker) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }


def test_our_own_client_renews_its_session_before_the_end(broker: EmbeddedBroker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    counters = broker.node.listener.counters

    async def ask() -> None:
        deadline = Deadline.after(WAIT_S)
        link = await Link.open(host, int(port), "test", deadline, security_of(plain(broker)))
        session = link._session
        assert session is not None
        try:
            assert session._renew_at is not None
            assert 0.8 * HOUR_MS < (session._renew_at - time.monotonic()) * 1000 < 0.9 * HOUR_MS
            before = counters.renewed
            await link.call(ApiKey.METADATA, MetadataRequest([]), deadline)
            assert counters.renewed == before
            session._renew_at = 0.0  # As if the time had come.
            asked = [link.call(ApiKey.METADATA, MetadataRequest([]), deadline) for _ in range(5)]
            assert all(answer.brokers for answer in await asyncio.gather(*asked))
            assert counters.renewed == before + 1
        finally:
            await link.close()

    asyncio.run(ask())


def test_kafka_python_renews_its_session(tmp_path: Path) -> None:
    with secured(tmp_path, **{"connections.max.reauth.ms": 3000}) as broker:
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        deadline, sent = time.monotonic() + WAIT_S, 0
        while broker.node.listener.counters.renewed < 2 and time.monotonic() < deadline:
            producer.send("orders", b"%d" % sent).get(WAIT_S)
            sent += 1
            time.sleep(0.005)
        producer.close()

        assert broker.node.listener.counters.renewed >= 2
        assert sorted(int(record.value or b"") for record in broker.records("orders")) == list(range(sent))


def test_librdkafka_loses_nothing_with_sessions_that_end(tmp_path: Path) -> None:
    with secured(tmp_path, **{"connections.max.reauth.ms": 3000}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, **plain(broker), "enable.idempotence": True}
        producer = confluent.Producer({**settings, "log_level": 0})
        deadline, sent = time.monotonic() + WAIT_S, 0
        counters = broker.node.listener.counters
        while counters.renewed + counters.expired < 2 and time.monotonic() < deadline:
            producer.produce("orders", b"%d" % sent)
            assert producer.flush(WAIT_S) == 0
            sent += 1
            time.sleep(0.005)

        assert counters.renewed + counters.expired >= 2
        assert sorted(int(record.value or b"") for record in broker.records("orders")) == list(range(sent))
