"""Push clients before their login, against a real broker: what they may cost, and that nobody else notices."""

from __future__ import annotations

import contextlib
import socket
import struct
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.push.hostile_frames import HostileClients
from tests.servers.victim import Victim

from qanat.wire.push.control import Heartbeat, encode_control
from qanat.wire.push.frames import UNAUTHENTICATED_BYTES, FrameType, encode_frame

CLIENTS = 200
OVERHEAD_BYTES = 24 * 1024
"""What a connection costs itself, with what the allocator leaves unused."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder: Path = tmp_path_factory.mktemp("victim")
    users = folder / "users"
    users.touch(0o600)
    users.write_text("alice:secret\n")
    started = Victim(
        folder,
        "listener.security.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
        f"sasl.plain.credentials.file={users}",
        "login.timeout.ms=3600000",
    )
    yield started
    started.close()


def test_a_frame_that_never_ends_holds_64_kib_at_most(victim: Victim) -> None:
    unfinished = struct.pack(">BQI", FrameType.HEARTBEAT, 1, UNAUTHENTICATED_BYTES) + bytes(UNAUTHENTICATED_BYTES - 1)
    with contextlib.ExitStack() as open_clients:
        for number in range(2 * CLIENTS):
            if number == CLIENTS:
                assert victim.is_alive()
                before = victim.rss_bytes
            open_clients.enter_context(victim.connect()).sendall(unfinished)
        assert victim.is_alive(), "its answer comes after all those frames were read"

        assert (victim.rss_bytes - before) / CLIENTS < UNAUTHENTICATED_BYTES + OVERHEAD_BYTES
    assert victim.bugs() == []


@pytest.mark.parametrize("length", [UNAUTHENTICATED_BYTES + 1, 2**24, 2**31, 2**32 - 1])
def test_a_longer_frame_is_refused_by_its_header(victim: Victim, length: int) -> None:
    with victim.connect() as client:
        client.sendall(struct.pack(">BQI", FrameType.HEARTBEAT, 1, length))
        assert b'"malformed"' in client.recv(65_536)


def test_frames_behind_a_token_that_is_checked_hold_64_kib_at_most(victim: Victim) -> None:
    """A worker checks passwords, one after the other: meanwhile the frames of all other clients wait."""
    flood = _login(b"secret") + b"".join(encode_frame(FrameType.HEARTBEAT, number) for number in range(2, 5_002))
    with contextlib.ExitStack() as open_clients:
        clients = [open_clients.enter_context(victim.connect()) for _ in range(CLIENTS)]
        assert victim.is_alive()
        before = _memory(victim, "VmRSS")
        _forget_peak(victim)
        for client in clients:
            client.sendall(flood)
        endings = [_all_of(client) for client in clients]

        assert (_memory(victim, "VmHWM") - before) / CLIENTS < UNAUTHENTICATED_BYTES + OVERHEAD_BYTES
    assert all(b"wait for its answer" in one for one in endings)
    assert victim.bugs() == []


@pytest.mark.parametrize(
    "said", [Heartbeat(1, token="bj0="), Heartbeat(1, mechanism="SCRAM-SHA-512", token="biwsbj1hLHI9Yg==")]
)
def test_tokens_in_the_wrong_order_end_the_connection_and_are_no_bug(victim: Victim, said: Heartbeat) -> None:
    with victim.connect() as client:
        client.sendall(encode_frame(FrameType.HEARTBEAT, 1, encode_control(said)))
        client.sendall(encode_frame(FrameType.HEARTBEAT, 2, encode_control(said)))

        assert b'"wrong-order"' in _all_of(client)
    assert victim.bugs() == []


def _login(password: bytes) -> bytes:
    token = b64encode(b"\0alice\0" + password).decode()
    return encode_frame(FrameType.HEARTBEAT, 1, encode_control(Heartbeat(1, mechanism="PLAIN", token=token)))


def _memory(victim: Victim, name: str) -> int:
    status = Path(f"/proc/{victim._process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(name)]
    return int(line.split()[1]) * 1024


def _forget_peak(victim: Victim) -> None:
    Path(f"/proc/{victim._process.pid}/clear_refs").write_text("5")


def _all_of(client: socket.socket) -> bytes:
    """What the broker says until the end of the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65_536):
            found += data
    return found


def test_hostile_clients_before_their_login_are_refused(victim: Victim) -> None:
    hostile = HostileClients(1)
    with victim.watched():
        for _ in range(500):
            data, _ = hostile.conversation()
            with victim.connect() as client, contextlib.suppress(ConnectionError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    pass
    assert victim.bugs() == []
