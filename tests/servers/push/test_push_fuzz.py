"""Hostile push clients against a real broker, by a seed: no bug, no client kept waiting, no memory lost.

A tenth as many frames come over a listener with TLS and SASL, from clients that have logged in and from others.

make fuzz-push                        ten million frames, in some minutes
make fuzz-push FRAMES=1000000 SEEDS=7    the run of one seed again
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import sys
import time
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.servers.push.hostile_frames import TOPIC, HostileClients
from tests.servers.tls.certificates import Authority, client_context
from tests.servers.victim import Victim

from qanat.wire.push.control import Heartbeat, encode_control
from qanat.wire.push.frames import UNAUTHENTICATED_BYTES, FrameType, PushFrameReader, encode_frame

FRAMES = int(os.environ.get("QANAT_FUZZ_FRAMES", "30000"))
GROWTH_BYTES = 50 * 1024 * 1024
_WARM_UP = 10_000
_AT_ONCE = 16
"""Conversations that are under way together."""
_PATIENCE_S = 60.0
"""Longer than any frame may keep those behind it waiting."""
_ABORTED_SHARE = 20
"""One in so many clients is gone before it is answered."""
_JUNK = b"\xff" * (UNAUTHENTICATED_BYTES + 100)
_ABORTING = struct.pack("ii", 1, 0)


def chosen_seed() -> int:
    given = os.environ.get("QANAT_FUZZ_SEED")
    if given is None:
        return 1
    return int(given) if given else SystemRandom().randrange(1 << 32)


def test_hostile_push_clients_hurt_no_other_client(tmp_path: Path) -> None:
    seed = chosen_seed()
    hostile = HostileClients(seed)
    # Topics that hostile clients manage to create are legal, but their memory is not what is measured here.
    victim = Victim(tmp_path, "auto.create.topics.enable=false", "log.retention.check.interval.ms=1000")

    def connect(_: int) -> socket.socket:
        return victim.connect(_PATIENCE_S)

    try:
        settings = {"retention.bytes": "1048576", "segment.bytes": "1048576"}
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{victim.port}"})
        for made in admin.create_topics([NewTopic(TOPIC, 1, config=settings)]).values():
            made.result(20)
        _attack(connect, hostile, min(_WARM_UP, FRAMES))
        before, began = victim.rss_bytes, time.monotonic()
        again = f"again: make fuzz-push FRAMES={FRAMES} SEEDS={seed}"
        with victim.watched(replay=again) as waits:
            endings = _attack(connect, hostile, FRAMES)
        growth = victim.rss_bytes - before
        summary = (
            f"seed {seed}: {FRAMES} frames of {endings.total()} clients in {time.monotonic() - began:.0f} s, "
            f"longest wait of another client {max(waits).seconds * 1000:.0f} ms, {growth / 2**20:.1f} MiB more, "
            f"{dict(endings.most_common())}"
        )
        sys.stdout.write(f"{summary}\n")
        replay = f"{summary}; {again}"
        assert victim.bugs() == [], f"{replay}\n{[str(one.get('traceback'))[-900:] for one in victim.bugs()[:5]]}"
        assert victim.is_alive(), replay
        assert growth < GROWTH_BYTES, replay
        assert endings["malformed"] > 0, f"nothing of it was hostile: {summary}"
        assert endings["wrong-order"] > 0, f"nothing of it was hostile: {summary}"
        assert not endings["broker-fault"], replay
    finally:
        victim.close()


def test_hostile_push_clients_over_tls_and_sasl_are_refused(tmp_path: Path) -> None:
    seed = chosen_seed()
    users, authority = tmp_path / "users", Authority(tmp_path)
    users.touch(0o600)
    users.write_text("alice:secret\n")
    victim = Victim(
        tmp_path,
        "listener.security.protocol=SASL_SSL",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f"sasl.plain.credentials.file={users}",
        f"ssl.keystore.location={authority.server().both}",
        "login.failures.per.user=0",
        "login.failures.per.address=0",
    )
    tls = client_context(authority)

    def connect(number: int) -> socket.socket:
        """Every second client logs in first."""
        client = tls.wrap_socket(victim.connect(_PATIENCE_S), server_hostname="localhost")
        if number % 2:
            _log_in(client)
        return client

    try:
        endings = _attack(connect, HostileClients(seed), FRAMES // 10, _send_junk)
        with connect(1):
            pass
        summary = f"seed {seed}: {FRAMES // 10} frames over TLS and SASL, {dict(endings.most_common())}"
        sys.stdout.write(f"{summary}\n")
        assert victim.bugs() == [], f"{summary}\n{[str(one.get('traceback'))[-900:] for one in victim.bugs()[:5]]}"
        assert not endings["broker-fault"], summary
        assert endings["not-authenticated"] > 0, summary
        assert endings["wrong-order"] > 0, summary
    finally:
        victim.close()


def _log_in(client: socket.socket) -> None:
    """Its id is 0: the ids of a conversation begin with 1."""
    token = b64encode(b"\0alice\0secret").decode()
    client.sendall(encode_frame(FrameType.HEARTBEAT, 0, encode_control(Heartbeat(1, mechanism="PLAIN", token=token))))
    assert b'"authenticated":true' in client.recv(65_536)


def _half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def _send_junk(client: socket.socket) -> None:
    """TLS has no half-closed connections: complete any frame that was begun, and end with one of no type."""
    client.sendall(_JUNK)


def _attack(
    connect: Callable[[int], socket.socket],
    hostile: HostileClients,
    frames: int,
    finish: Callable[[socket.socket], None] = _half_close,
) -> Counter[str]:
    """So many frames; the reasons for which clients were disconnected."""
    sent = clients = 0
    endings: Counter[str] = Counter()
    under_way: deque[tuple[socket.socket, bytes]] = deque()
    try:
        while sent < frames:
            data, count = hostile.conversation()
            sent, clients = sent + count, clients + 1
            client = connect(clients)
            under_way.append((client, data))
            with contextlib.suppress(OSError):
                client.sendall(data)
                if clients % _ABORTED_SHARE == 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTING)
                    under_way.pop()[0].close()
                    continue
                finish(client)
            if len(under_way) >= _AT_ONCE:
                endings[_reason(*under_way.popleft())] += 1
        while under_way:
            endings[_reason(*under_way.popleft())] += 1
    finally:
        for client, _ in under_way:
            client.close()
    return endings


def _reason(client: socket.socket, sent: bytes) -> str:
    """What DISCONNECT says, once the broker has closed the connection."""
    reader, found = PushFrameReader(2**24), "a goodbye"
    with client, contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := _received(client, sent):
            for frame in reader.received(data):
                if frame.type == FrameType.DISCONNECT:
                    found = bytes(frame.payload).split(b'"')[3].decode()
    return found


def _received(client: socket.socket, sent: bytes) -> bytes:
    try:
        return client.recv(65_536)
    except TimeoutError:
        raise AssertionError(f"no answer and no end within {_PATIENCE_S:.0f} s: {sent.hex()}") from None
