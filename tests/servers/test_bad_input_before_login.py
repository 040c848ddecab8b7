"""Bad input before a login, on a SASL listener: nothing but refusals, no client kept waiting, bounded memory.

make fuzz runs the mutations of this file for longer as well.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.kafka.raw import RawClient
from tests.servers.mutations import Mutator, swollen
from tests.servers.test_bad_input import frame, request_layouts
from tests.servers.test_bad_input_fuzz import SECONDS, chosen_seed
from tests.servers.victim import Victim, ending, exactly, is_ended

from qanat.api.api_table import SERVED, ServedApi
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages import sasl_authenticate, sasl_handshake
from qanat.wire.kafka.messages.metadata import MetadataRequest
from qanat.wire.kafka.registry import ApiKey

MIB = 1024 * 1024
GROWTH_BYTES = 50 * MIB
LARGEST_BYTES = 512 * 1024
"""`sasl.server.max.receive.size`."""
FEWEST_PER_S = 50
"""Clients for each second of a run; a busy machine takes longer for them."""
LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOKENS = (
    b"\0alice\0guess",
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"n,a=alice,n=a=2Cb=3Dc,r=nonce",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"n,a=alice,\x01auth=Bearer eyJhbGciOiJub25lIn0.e30.\x01\x01",
)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder: Path = tmp_path_factory.mktemp("victim")
    users = folder / "users"
    users.touch(0o600)
    users.write_text("alice:secret\n")
    # Without limits of failures, or hardly a guess would be looked at.
    started = Victim(
        folder,
        "listener.security.protocol=SASL_PLAINTEXT",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"sasl.plain.credentials.file={users}",
        "login.failures.per.user=0",
        "login.failures.per.address=0",
        "login.timeout.ms=3600000",
        f"sasl.server.max.receive.size={LARGEST_BYTES}",
    )
    yield started
    started.close()


@pytest.fixture(autouse=True)
def _unharmed(victim: Victim) -> Iterator[None]:
    """After every test: no bug came to light, no request took effect, and memory and waits were small."""
    before = victim.rss_bytes
    with victim.watched():
        yield
    assert victim.bugs() == []
    assert victim.rss_bytes - before < GROWTH_BYTES
    with RawClient(f"127.0.0.1:{victim.port}") as client:
        assert client.ask(ApiKey.SASL_HANDSHAKE, 1, sasl_handshake.SaslHandshakeRequest("PLAIN")).error_code == 0
        token = sasl_authenticate.SaslAuthenticateRequest(b"\0alice\0secret")
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, token).error_code == 0
        assert client.ask(ApiKey.METADATA, 8, MetadataRequest(None)).topics == [], "auto.create.topics.enable is on"


def handshake(mechanism: str, version: int) -> bytes:
    body = sasl_handshake.write_request(sasl_handshake.SaslHandshakeRequest(mechanism), version)
    return b"".join(frame_request(ApiKey.SASL_HANDSHAKE, version, 1, "fuzz", body))


def authenticate(token: bytes) -> bytes:
    body = sasl_authenticate.write_request(sasl_authenticate.SaslAuthenticateRequest(token), 2)
    return b"".join(frame_request(ApiKey.SASL_AUTHENTICATE, 2, 2, "fuzz", body))


def drawn(mutator: Mutator) -> tuple[bytes, ...]:
    """Any mutated request; or a login whose tokens, or the requests around them, are mutated."""
    kind = mutator.number(4)
    if kind == 0:
        return tuple(mutator.draw() for _ in range(1 + mutator.number(4)))
    begin = handshake(MECHANISMS[mutator.number(len(MECHANISMS))], 0 if kind == 1 else 1)
    tokens = [bytes(mutator.changed(TOKENS[mutator.number(len(TOKENS))])) for _ in range(1 + mutator.number(3))]
    match kind:
        case 1:
            return begin, *(struct.pack(">i", len(token)) + token for token in tokens)
        case 2:
            return begin, *map(authenticate, tokens)
        case _:
            whole = authenticate(tokens[0])[4:]
            changed = bytes(mutator.changed(whole))
            return begin, struct.pack(">i", len(changed)) + changed


def test_mutated_logins_and_requests_before_one_are_refused(victim: Victim) -> None:
    seed = chosen_seed()
    mutator, sent = Mutator(seed), 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline or sent < FEWEST_PER_S * SECONDS:
        with victim.connect() as client, contextlib.suppress(ConnectionError):
            client.sendall(b"".join(drawn(mutator)))
            if not mutator.number(4):
                ending(client, 0.002)
        sent += 1


# Not 100 MiB, whose first byte is a frame of push: half a minute may pass before that ends for lack of a second one.
@pytest.mark.parametrize("size", [LARGEST_BYTES + 1, 160 * MIB, 2**31 - 1])
def test_a_frame_that_announces_too_much_ends_the_connection_at_once(victim: Victim, size: int) -> None:
    for before in (b"", handshake("PLAIN", 0), handshake("PLAIN", 1)):
        with victim.connect() as client:
            client.sendall(before)
            if before:
                (answered,) = struct.unpack(">i", exactly(client, 4))
                exactly(client, answered)
            announced = struct.pack(">i", size)
            client.sendall(announced)
            assert is_ended(client, before or announced)


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_the_largest_arrays_before_a_login_are_not_even_read(victim: Victim, served: ServedApi) -> None:
    layout = request_layouts(served.api.name)[served.last_version]
    one = swollen(layout, 1)
    if one is None:
        return
    each = max(1, len(swollen(layout, 1001) or b"") - len(one)) / 1000
    body = swollen(layout, int((LARGEST_BYTES - 2000) / each))
    assert body is not None
    for begin in (b"", handshake("SCRAM-SHA-256", 1)):
        with victim.connect() as client, contextlib.suppress(ConnectionError):
            client.sendall(begin + frame(served.key, served.last_version, body))
            if begin:
                (size,) = struct.unpack(">i", exactly(client, 4))
                exactly(client, size)
            assert ending(client) == "closed"


def test_slow_and_large_logins_of_many_clients_take_bounded_memory(victim: Victim) -> None:
    clients = [victim.connect() for _ in range(100)]
    try:
        for client in clients:
            client.sendall(struct.pack(">i", LARGEST_BYTES) + bytes(64 * 1024))
        for client in clients:
            client.sendall(bytes(64 * 1024))
    finally:
        for client in clients:
            client.close()
