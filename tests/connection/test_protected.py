"""TLS and SASL on our own broker and on a real Kafka: which clients connect, and which errors the others get."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from tests.connection.certificates import Certificates, certificates, tls_in_front
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.faults import UnreachableError
from qanat.connection.sasl import NotAuthenticatedError
from qanat.connection.security import security_of
from qanat.connection.tls import UntrustedError
from qanat.testing import EmbeddedBroker

__all__ = ["kafka_jars"]

ALICE = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path)


@contextlib.asynccontextmanager
async def asking_broker(tmp_path: Path) -> AsyncIterator[int]:
    """A broker of ours that wants to know who asks; its port."""
    (tmp_path / "credentials").write_text("alice:secret\n")
    (tmp_path / "credentials").chmod(0o600)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.plain.credentials.file": str(tmp_path / "credentials"),
    }
    with EmbeddedBroker(settings=settings) as broker:
        yield int(broker.bootstrap_servers.rpartition(":")[2])


async def reach(port: int, host: str = "127.0.0.1", **settings: str) -> int:
    """How many brokers there are behind a port."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with Cluster([(host, port)], timeout_s=20, security=security_of(named)) as cluster:
        return len((await cluster.metadata([], cluster.deadline())).brokers)


async def test_a_password_opens_our_broker_over_tls_and_without(tmp_path: Path, made: Certificates) -> None:
    async with asking_broker(tmp_path) as port, tls_in_front(port, made) as outside:
        assert await reach(port, **ALICE, security_protocol="SASL_PLAINTEXT") == 1
        assert await reach(outside, **ALICE, security_protocol="SASL_SSL", ssl_ca_location=str(made.authority)) == 1


async def test_who_is_not_let_in_is_told_at_once_and_why(tmp_path: Path) -> None:
    async with asking_broker(tmp_path) as port:
        wrong = {**ALICE, "sasl.password": "guess", "security.protocol": "SASL_PLAINTEXT"}
        with pytest.raises(NotAuthenticatedError, match="does not let alice in") as refused:
            await reach(port, **wrong)
        with pytest.raises(
            NotAuthenticatedError, match=r"does not offer sasl.mechanism SCRAM-SHA-256; it offers PLAIN"
        ):
            await reach(port, **{**wrong, "sasl.mechanism": "SCRAM-SHA-256"})
        with pytest.raises(UnreachableError, match=r"it may require authentication: security.protocol"):
            await reach(port)

    assert "guess" not in str(refused.value)


async def test_a_broker_that_asks_nobody_says_so(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, pytest.raises(NotAuthenticatedError, match="does not ask who we are"):
        await reach(parse_bootstrap(broker.bootstrap_servers)[0][1], **ALICE, security_protocol="SASL_PLAINTEXT")


async def test_a_certificate_is_looked_at(tmp_path: Path, made: Certificates) -> None:
    (tmp_path / "other").mkdir()
    other = certificates(tmp_path / "other", "broker.example.org")
    async with asking_broker(tmp_path) as port, tls_in_front(port, made) as outside, tls_in_front(port, other) as named:
        with pytest.raises(UntrustedError, match=r"self-signed|unable to get.*ssl.ca.location"):
            await reach(outside, security_protocol="SSL")
        with pytest.raises(UntrustedError, match=r"cannot be trusted: .*connect by the name in its certificate"):
            await reach(named, security_protocol="SSL", ssl_ca_location=str(other.authority))
        trusting = {"enable.ssl.certificate.verification": "false"}
        indifferent = {"ssl.endpoint.identification.algorithm": "none", "ssl.ca.location": str(other.authority)}
        for settings in (trusting, indifferent):
            assert await reach(named, security_protocol="SASL_SSL", **ALICE, **settings) == 1


async def test_a_proxy_may_want_our_certificate(tmp_path: Path, made: Certificates) -> None:
    settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(made.authority), **ALICE}
    async with asking_broker(tmp_path) as port, tls_in_front(port, made, wants_certificate=True) as outside:
        assert await reach(outside, **settings, ssl_keystore_location=str(made.client)) == 1
        with pytest.raises(UnreachableError, match=r"want a certificate of us: ssl.certificate.location"):
            await reach(outside, **settings)


async def test_tls_to_a_port_without_and_the_other_way_round(tmp_path: Path, made: Certificates) -> None:
    async with asking_broker(tmp_path) as port, tls_in_front(port, made) as outside:
        with pytest.raises(UnreachableError, match="TLS"):
            await reach(port, security_protocol="SSL")
        with pytest.raises(UnreachableError, match=r"wants TLS|closed the connection"):
            await reach(outside)


KAFKAS = """sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.safe.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_alice="secret";
listener.name.safe.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.safe.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.safe.ssl.client.auth=required
connections.max.reauth.ms=1000
"""


def make_safe(properties: Path, made: Certificates, port: int) -> None:
    """Give a Kafka a second listener, which wants a certificate and a password."""
    text = properties.read_text().replace("CONTROLLER:PLAINTEXT", "CONTROLLER:PLAINTEXT,SAFE:SASL_SSL")
    text = text.replace("listeners=PLAINTEXT:", f"listeners=SAFE://127.0.0.1:{port},PLAINTEXT:")
    properties.write_text(text + KAFKAS.format(server=made.server, authority=made.authority))


@pytest.mark.long
async def test_kafka_lets_us_in_by_every_mechanism_and_keeps_us(
    kafka_jars: Path, tmp_path: Path, made: Certificates
) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        safe = int(probe.getsockname()[1])
    make_safe(tmp_path / "server.properties", made, safe)
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(made.authority),
        "ssl.keystore.location": str(made.client),
    }
    with broker.running():
        await asyncio.to_thread(add_scram_user, broker.address, "bob", "päss,=word")
        for mechanism, name, password in [
            ("PLAIN", "alice", "secret"),
            ("SCRAM-SHA-256", "bob", "päss,=word"),
            ("SCRAM-SHA-512", "bob", "päss,=word"),
        ]:
            given = {**settings, "sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
            assert await reach(safe, **given) == 1
            with pytest.raises(NotAuthenticatedError, match=f"does not let {name} in"):
                await reach(safe, **{**given, "sasl.password": "guess"})
        async with Cluster([("127.0.0.1", safe)], timeout_s=60, security=security_of(given)) as cluster:
            link = await cluster.any_link(cluster.deadline())
            # Kafka forgets who we are after a second, and closes connections that do not tell it again.
            for _ in range(6):
                assert (await cluster.metadata([], cluster.deadline())).brokers
                await asyncio.sleep(0.4)
            assert await cluster.any_link(cluster.deadline()) is link


def add_scram_user(address: str, name: str, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(30)
