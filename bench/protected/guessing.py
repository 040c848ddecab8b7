"""Guesses of passwords at a fixed rate, each on a connection of its own.

    python -m bench.protected.guessing HOST:PORT FROM RATE

Prints "ready", and at the end of its standard input how many it sent, how many were answered, and the seconds, as JSON.
A guess connects from the address FROM, sends SaslHandshake and a wrong password (PLAIN), and waits for the refusal.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
import time

_NAMES = 50
_OPEN_MAX = 900
"""Connections at one time; a broker that is slower gets fewer guesses."""


def _frame(key: int, version: int, body: bytes) -> bytes:
    """A request with header version 1, without a client id."""
    request = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(request)) + request


def guess(number: int) -> bytes:
    """SaslHandshake v1, then SaslAuthenticate v0 with a wrong password of one of several users."""
    name = b"bench" if number % _NAMES == 0 else b"user-%d" % (number % _NAMES)
    token = b"\0%b\0guess-%d" % (name, number)
    handshake = _frame(17, 1, struct.pack(">h", 5) + b"PLAIN")
    return handshake + _frame(36, 0, struct.pack(">i", len(token)) + token)


class Guesser:
    """Sends guesses until it is told to stop."""

    def __init__(self, address: str, source: str, rate: float) -> None:
        host, _, port = address.rpartition(":")
        self._to = host, int(port)
        self._source = source
        self._rate = rate
        self._poll = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self.sent = self.answered = 0

    def run(self, is_over: threading.Event) -> float:
        """Guess until it is over; returns the seconds."""
        began = time.perf_counter()
        while not is_over.is_set():
            due = int((time.perf_counter() - began) * self._rate)
            while self.sent < due and len(self._open) < _OPEN_MAX:
                self._begin()
            for descriptor, _ in self._poll.poll(1 / self._rate):  # One at a time, not several and a pause.
                self._on_event(descriptor)
        for one in self._open.values():
            one.close()
        return time.perf_counter() - began

    def _begin(self) -> None:
        one = socket.socket()
        # Many connections from one address: its ports are chosen when the other end is known.
        one.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        one.bind((self._source, 0))
        one.connect(self._to)
        one.sendall(guess(self.sent))
        one.setblocking(False)
        self.sent += 1
        self._open[one.fileno()] = one
        self._poll.register(one.fileno(), select.EPOLLIN)

    def _on_event(self, descriptor: int) -> None:
        """The answer to SaslHandshake comes first, then the refusal, and the broker closes."""
        one = self._open[descriptor]
        try:
            found = one.recv(4096)
        except ConnectionError:
            found = b""
        if not found:
            self.answered += 1
            del self._open[descriptor]
            self._poll.unregister(descriptor)
            one.close()


def main(address: str, source: str, rate: str) -> None:
    is_over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=listen, daemon=True).start()
    guesser = Guesser(address, source, float(rate))
    print("ready", flush=True)
    seconds = guesser.run(is_over)
    print(json.dumps({"sent": guesser.sent, "answered": guesser.answered, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
