"""Consumers of push in bulk, for `idle` and `slow`: `python -m bench.push.crowd ADDRESS TOPIC COUNT KIND`.

Prints "ready" when all are there, and ends when its input does. Kinds: `greeted` connections only say who they are,
`subscribed` ones subscribe and wait, `stuck` ones subscribe and never read, `slow` ones acknowledge a record ten times
a second.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence

from bench.processes import open_files_allowed

_HEADER = struct.Struct(">BQI")
_ACK, _SUBSCRIBE, _HEARTBEAT = 2, 3, 8
SLOW_S = 0.1


_TOGETHER = 50
"""Clients that connect at a time."""


def connected(address: str, frame_type: int, fields: dict[str, object]) -> socket.socket:
    """A client that has sent its first frame and has the answer."""
    client = _begun(address, frame_type, fields)
    _check_answer(client)
    return client


def _begun(address: str, frame_type: int, fields: dict[str, object]) -> socket.socket:
    host, _, port = address.rpartition(":")
    client = socket.create_connection((host, int(port)), 60.0)
    payload = json.dumps({"v": 1, **fields}).encode()
    client.sendall(_HEADER.pack(frame_type, 1, len(payload)) + payload)
    return client


def _check_answer(client: socket.socket) -> None:
    """Take the answer, and nothing behind it."""
    answer = client.recv(_HEADER.size, socket.MSG_WAITALL)
    if not answer or answer[0] != _ACK:
        raise SystemExit(f"crowd: {answer!r}")
    client.recv(_HEADER.unpack(answer)[2], socket.MSG_WAITALL)


def main(arguments: Sequence[str]) -> int:
    address, topic, count, kind = arguments
    open_files_allowed()
    first: tuple[int, dict[str, object]] = (
        (_HEARTBEAT, {}) if kind == "greeted" else (_SUBSCRIBE, {"topics": [topic], "start": "latest"})
    )
    clients: list[socket.socket] = []
    while len(clients) < int(count):
        group = [_begun(address, *first) for _ in range(min(_TOGETHER, int(count) - len(clients)))]
        for one in group:
            _check_answer(one)
        clients += group
    print("ready", flush=True)
    with selectors.DefaultSelector() as ready:
        ready.register(sys.stdin, selectors.EVENT_READ)
        pause_s = SLOW_S / len(clients) if kind == "slow" else 1.0
        answered = [0] * len(clients)
        turn = 0
        while not ready.select(pause_s):
            turn = (turn + 1) % len(clients)
            if kind == "slow":
                answered[turn] = _slow_step(clients[turn], answered[turn])
            elif kind in ("greeted", "subscribed"):
                _stay_alive(clients)
    return 0


def _slow_step(client: socket.socket, answered: int) -> int:
    """Take what a frame or two may have sent, and acknowledge one record more."""
    client.setblocking(False)
    try:
        got = client.recv(256)
    except BlockingIOError:
        return answered
    if not got:
        raise SystemExit("crowd: the broker closed a connection")
    client.setblocking(True)
    client.sendall(_HEADER.pack(_ACK, answered + 1, 0))
    return answered + 1


_last_beat_s = 0.0


def _stay_alive(clients: Sequence[socket.socket]) -> None:
    """A heartbeat of each, every ten seconds."""
    global _last_beat_s
    if time.monotonic() - _last_beat_s < 10.0:
        return
    _last_beat_s = time.monotonic()
    beat = _HEADER.pack(_HEARTBEAT, 0, 0)
    for client in clients:
        with contextlib.suppress(ConnectionError):
            client.sendall(beat)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
