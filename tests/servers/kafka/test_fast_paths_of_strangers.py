"""Requests that take the fast paths, from clients that have not logged in, on every listener: nothing is answered,
nothing is appended. The same bytes are served on an open listener."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.kafka.producer_here import TOPIC, fetch_frame, one_batch, produce_frame
from tests.servers.kafka.raw import TIMEOUT_S, RawClient
from tests.servers.tls.certificates import Authority

from qanat.connection.sasl import ScramDialogue
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from qanat.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from qanat.wire.kafka.registry import ApiKey

FRAMES = {
    **{f"produce {version}": produce_frame(one_batch(), version) for version in (3, 7, 9, 12)},
    **{f"fetch {version}": fetch_frame(version) for version in (11,)},
}
PROTECTED = ["PASSWORDS", "SECRETS", "CERTIFICATES", "BROKERS"]
STAGES = ["at once", "handshake", "bare handshake", "in the exchange", "after a refusal"]


class Listeners:
    """A broker with a listener of each kind."""

    def __init__(self, broker: EmbeddedBroker, authority: Authority, ordinary: list[int]) -> None:
        self.broker = broker
        self.ordinary = ordinary
        """The API keys of requests that took the ordinary path."""
        self.tls = ssl.create_default_context(cafile=str(authority.trusted))

    def connect(self, name: str) -> RawClient:
        inter_broker = self.broker.node.inter_broker
        ports = dict(self.broker.node.listener.ports)
        if name not in ports:
            assert inter_broker is not None
            ports[name] = inter_broker.port
        is_tls = name in ("SECRETS", "CERTIFICATES")
        return RawClient(f"127.0.0.1:{ports[name]}", self.tls if is_tls else None)

    @property
    def records(self) -> int:
        return len(self.broker.records(TOPIC))


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    folder: Path = tmp_path_factory.mktemp("listeners")
    authority = Authority(folder)
    for name, content in (("users", "alice:secret"), ("brokers", "broker:between")):
        (folder / name).touch(0o600)
        (folder / name).write_text(content)
    names = ("OPEN", *PROTECTED)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": "OPEN:PLAINTEXT,PASSWORDS:SASL_PLAINTEXT,SECRETS:SASL_SSL,"
        "CERTIFICATES:SSL,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "inter.broker.credentials.file": folder / "brokers",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.plain.credentials.file": folder / "users",
        "ssl.keystore.location": authority.server().both,
        "ssl.truststore.location": authority.trusted,
        "listener.name.certificates.ssl.client.auth": "required",
        "login.failures.per.user": 0,
        "login.failures.per.address": 0,
        "http.port": 0,
        "http.security.protocol": "SASL_PLAINTEXT",
    }
    ordinary: list[int] = []
    handle = Dispatcher._handle

    def watched(self: Dispatcher, frame: memoryview, *arguments: Any) -> Any:
        ordinary.append(int.from_bytes(frame[:2]))
        return handle(self, frame, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "_handle", watched)
        with EmbeddedBroker(settings=settings) as broker:
            # As in production: the embedded broker puts its faults before the fast paths.
            broker.node.listener.dispatcher.interceptor = None
            broker.create_topic(TOPIC)
            yield Listeners(broker, authority, ordinary)


def speak(client: RawClient, stage: str) -> None:
    """Come so far in a login, and no further."""
    if stage == "at once":
        return
    mechanism = "SCRAM-SHA-256" if stage == "in the exchange" else "PLAIN"
    version = 0 if stage == "bare handshake" else 1
    assert client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism)).error_code == 0
    if stage == "in the exchange":
        token = ScramDialogue("sha256", "alice", "guess", "nonce").begin()
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token)).error_code == 0
    elif stage == "after a refusal":
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0guess"))


def answers(client: RawClient, frame: bytes) -> list[bytes]:
    """What comes back until the broker closes the connection."""
    found: list[bytes] = []
    with contextlib.suppress(OSError, EOFError):
        client.send_bytes(frame)
        while True:
            found.append(client.receive_bytes())
    return found


@pytest.mark.parametrize("what", FRAMES)
def test_the_requests_are_served_on_an_open_listener_by_the_fast_path(listeners: Listeners, what: str) -> None:
    before = listeners.records
    listeners.ordinary.clear()
    with listeners.connect("OPEN") as client:
        client.send_bytes(FRAMES[what])
        assert client.receive_bytes()

    assert listeners.ordinary == []
    assert listeners.records == before + what.startswith("produce")


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("stage", STAGES)
def test_a_stranger_gets_nothing_and_leaves_nothing(listeners: Listeners, name: str, stage: str) -> None:
    if name == "CERTIFICATES" and stage != "at once":
        return  # There is no login by SASL.
    before = listeners.records
    for what, frame in FRAMES.items():
        with contextlib.suppress(ssl.SSLError, ConnectionError), listeners.connect(name) as client:
            speak(client, stage)
            found = answers(client, frame)
            # A refused login is answered itself.
            refusals = [one for one in found if b"Authentication failed" in one]
            assert [one for one in found if one not in refusals] == [], what
            assert len(refusals) <= (stage == "after a refusal")

    assert listeners.records == before


def test_the_fast_path_of_http_asks_for_a_login(listeners: Listeners) -> None:
    before, server = listeners.records, listeners.broker.node.http
    assert server is not None
    for headers in ({}, {"Authorization": "Basic eDp5"}, {"X-API-Key": "qk_0"}):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
        body = b'{"topic":"%s","value":1}' % TOPIC.encode()
        connection.request("POST", "/produce", body, {"Content-Type": "application/json", **headers})
        assert connection.getresponse().status == 401
        connection.close()

    assert listeners.records == before


def test_a_frame_behind_a_login_in_the_same_packet_is_not_served_before_it(listeners: Listeners) -> None:
    before = listeners.records
    with listeners.connect("PASSWORDS") as client:
        speak(client, "bare handshake")
        token = b"\0alice\0guess"
        found = answers(client, struct.pack(">i", len(token)) + token + FRAMES["produce 9"])

    assert found == []
    assert listeners.records == before
