"""Real clients over TLS and with certificates: librdkafka, kafka-python, aiokafka, curl."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import pytest
from tests.servers.kafka.raw import RawClient
from tests.servers.tls.certificates import Authority, Shown, client_context

from qanat.model.error_codes import ErrorCode
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey


@dataclass(frozen=True)
class Protected:
    """A broker with an open listener and three protected ones."""

    broker: EmbeddedBroker
    authority: Authority
    alice: Shown

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.broker.node.listener.ports[listener]}"


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    passwords = folder / "passwords"
    passwords.touch(0o600)
    passwords.write_text("bob:secret\n")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CERTS://127.0.0.1:0",
        "listener.security.protocol.map": "CERTS:SSL",
        "ssl.keystore.location": authority.server().both,
        "sasl.plain.credentials.file": passwords,
        "listener.name.certs.ssl.client.auth": "required",
        "listener.name.certs.ssl.truststore.location": authority.trusted,
        "listener.name.certs.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=people.*$/$1/L",
        "http.port": 0,
        "http.security.protocol": "SSL",
        "listener.name.http.ssl.client.auth": "requested",
        "listener.name.http.ssl.truststore.location": authority.trusted,
        "metrics.port": 0,
        "metrics.security.protocol": "SSL",
        "listener.name.metrics.ssl.client.auth": "required",
        "listener.name.metrics.ssl.truststore.location": authority.trusted,
    }
    with EmbeddedBroker(settings=settings) as broker:
        yield Protected(broker, authority, authority.client("alice", "CN=Alice,OU=people,O=Qanat"))


def librdkafka(protected: Protected, listener: str) -> dict[str, str]:
    common = {
        "bootstrap.servers": protected.address(listener),
        "ssl.ca.location": str(protected.authority.trusted),
        "security.protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
    }
    if listener == "SASL_SSL":
        return {**common, "sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "secret"}
    if listener == "CERTS":
        shown = protected.alice
        return {**common, "ssl.certificate.location": str(shown.chain), "ssl.key.location": str(shown.key)}
    return common


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "CERTS"])
def test_librdkafka_writes_and_reads(protected: Protected, listener: str) -> None:
    topic, settings = f"librdkafka-{listener}", librdkafka(protected, listener)
    protected.broker.create_topic(topic)
    producer = confluent_kafka.Producer(settings)
    value = bytes(300_000)
    for number in range(5):
        producer.produce(topic, value + bytes([number]))
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    while len(read) < 5:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()

    assert read == [value + bytes([number]) for number in range(5)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "CERTS"])
def test_kafka_python_writes_and_reads(protected: Protected, listener: str) -> None:
    import kafka  # type: ignore[import-untyped]  # It warns of its own import.

    topic = f"kafka-python-{listener}"
    protected.broker.create_topic(topic)
    settings = {
        "bootstrap_servers": protected.address(listener),
        "security_protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
        "ssl_cafile": str(protected.authority.trusted),
    }
    if listener == "SASL_SSL":
        settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "bob", "sasl_plain_password": "secret"}
    if listener == "CERTS":
        settings |= {"ssl_certfile": str(protected.alice.chain), "ssl_keyfile": str(protected.alice.key)}
    producer = kafka.KafkaProducer(**settings)
    producer.send(topic, b"hello").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    read = next(iter(consumer)).value
    consumer.close()

    assert read == b"hello"


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "CERTS"])
async def test_aiokafka_writes_and_reads(protected: Protected, listener: str) -> None:
    topic = f"aiokafka-{listener}"
    protected.broker.create_topic(topic)
    shown = protected.alice if listener == "CERTS" else None
    settings = {
        "bootstrap_servers": protected.address(listener),
        "security_protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
        "ssl_context": client_context(protected.authority, shown),
    }
    if listener == "SASL_SSL":
        settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "bob", "sasl_plain_password": "secret"}
    async with aiokafka.AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with aiokafka.AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).value == b"hello"


def test_a_client_learns_the_addresses_of_its_own_listener(protected: Protected) -> None:
    context = client_context(protected.authority, protected.alice)
    for listener, tls in (("PLAINTEXT", None), ("SSL", context), ("CERTS", context)):
        port = protected.broker.node.listener.ports[listener]
        with RawClient(protected.address(listener), tls) as client:
            metadata = client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
            cluster = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
            found = client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))

        assert [(one.host, one.port) for one in metadata.brokers] == [("127.0.0.1", port)]
        assert [(one.host, one.port) for one in cluster.brokers] == [("127.0.0.1", port)]
        assert [(one.host, one.port) for one in found.coordinators] == [("127.0.0.1", port)]


class OnlyAlice:
    """An authorizer that allows all topics to alice, and remembers whom it was asked about."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        self.asked.add(str(principal))
        return resource.kind is ResourceKind.TOPIC and principal == Principal("alice")


def test_the_mapped_name_of_a_certificate_is_what_the_authorizer_decides_about(protected: Protected) -> None:
    protected.broker.create_topic("secret")
    dispatcher, rules = protected.broker.node.listener.dispatcher, OnlyAlice()
    before, dispatcher.interceptor = dispatcher.interceptor, ListenerSecurity(authorizer=rules).handle
    context = client_context(protected.authority, protected.alice)
    try:
        codes = {}
        for listener in ("CERTS", "SSL"):
            with RawClient(protected.address(listener), context) as client:
                answer = client.ask(ApiKey.METADATA, 1, MetadataRequest([MetadataRequestTopic(name="secret")]))
                codes[listener] = answer.topics[0].error_code
    finally:
        dispatcher.interceptor = before

    assert codes == {"CERTS": ErrorCode.NONE, "SSL": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert rules.asked == {"User:alice", "User:ANONYMOUS"}


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "CERTS"])
def test_a_client_that_does_not_speak_tls_is_not_answered(protected: Protected, listener: str) -> None:
    with RawClient(protected.address(listener)) as client:
        client.send(ApiKey.METADATA, 1, MetadataRequest([]))
        with pytest.raises((OSError, EOFError, AssertionError)):
            client.receive(ApiKey.METADATA, 1)


@pytest.mark.parametrize("case", ["no certificate", "of another authority", "no rule matches", "expired"])
def test_a_client_without_an_acceptable_certificate_is_refused(protected: Protected, case: str, tmp_path: Path) -> None:
    shown: Shown | None = None
    if case == "of another authority":
        shown = Authority(tmp_path, "other").client("eve", "CN=Alice,OU=people,O=Qanat")
    elif case == "no rule matches":
        shown = protected.authority.client("eve", "CN=Alice\\,OU\\=people,O=Qanat")
    elif case == "expired":
        shown = protected.authority.client("old", "CN=Alice,OU=people", lifetime=-timedelta(hours=1))
    (tls,) = [one for one in protected.broker.node.listeners.certificates if one.name == "CERTS"]
    before = tls.failed_handshakes

    with pytest.raises((ssl.SSLError, OSError, EOFError, AssertionError)):  # noqa: SIM117 - the first may raise, too
        with RawClient(protected.address("CERTS"), client_context(protected.authority, shown)) as client:
            client.ask(ApiKey.METADATA, 1, MetadataRequest([]))
    # The client may see the alert before the broker has counted it.
    deadline = time.monotonic() + 60
    while tls.failed_handshakes == before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tls.failed_handshakes == before + 1


def curl(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["curl", "-sS", "-m", "60", *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_uses_http_over_tls(protected: Protected) -> None:
    node = protected.broker.node
    assert node.http is not None
    protected.broker.create_topic("over-https")
    url = node.http.address
    assert url.startswith("https://")
    body = ("-H", "Content-Type: application/json", "-d", '{"topic": "over-https", "value": 1}')

    answered = curl("--cacert", protected.authority.trusted, *body, f"{url}/produce")
    assert '"offset":0' in answered.stdout.replace(" ", ""), answered
    with_certificate = ("--cert", protected.alice.chain, "--key", protected.alice.key)
    answered = curl("--cacert", protected.authority.trusted, *with_certificate, *body, f"{url}/produce")
    assert '"offset":1' in answered.stdout.replace(" ", ""), answered
    assert curl(f"{url}/health").returncode == 60, "curl does not trust the authority"
    assert curl(url.replace("https", "http") + "/health").returncode != 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_metrics_over_tls_want_a_certificate_and_say_when_ours_expires(protected: Protected) -> None:
    node = protected.broker.node
    assert node.metrics is not None
    trusted = ("--cacert", protected.authority.trusted)

    assert curl(*trusted, node.metrics.address).returncode != 0
    with_certificate = ("--cert", protected.alice.chain, "--key", protected.alice.key)
    shown = curl(*trusted, *with_certificate, node.metrics.address).stdout
    assert 'qanat_certificate_expiry_timestamp_seconds{listener="CERTS"}' in shown
    assert 'qanat_tls_handshakes_failed_total{listener="METRICS"} 1' in shown
