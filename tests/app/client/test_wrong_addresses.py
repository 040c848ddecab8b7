"""Addresses that are not Kafka brokers: each kind of server has its own error, in one sentence, within the timeout."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.app.processes import qanat


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port where each connection is served by a function, and then stays open."""
    kept: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            kept.append(connection)
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it speaks SSH"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "it wants TLS: security.protocol should be SSL"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is announced"),
    ],
)
def test_other_servers_are_named(answer: bytes, reason: str) -> None:
    with server(lambda connection: connection.sendall(answer)) as address:
        result = qanat("topic", "list", "-b", address)

    expected = f"qanat: no broker can be reached: {address} answers with what is not Kafka's protocol: {reason}"
    assert (result.returncode, result.stderr[: len(expected)]) == (1, expected)


def test_a_silent_server_is_waited_for_until_the_timeout() -> None:
    with server(lambda connection: None) as address:
        began = time.monotonic()
        result = qanat("topic", "list", "-b", address, "--timeout", "6")
        took_s = time.monotonic() - began

    assert result.stderr == (
        f"qanat: no broker can be reached: {address} accepts connections but does not answer: "
        "it may be no Kafka broker (an HTTP or TLS port, for example), or a busy one\n"
    )
    assert took_s >= 6


def test_a_silent_address_does_not_keep_the_next_from_its_turn(broker_address: str) -> None:
    with server(lambda connection: None) as address:
        assert qanat("topic", "list", "-b", f"{address},{broker_address}").returncode == 0


def test_an_unknown_host_is_one_sentence() -> None:
    result = qanat("topic", "list", "-b", "no-such-host.invalid:9092")

    assert result.stderr.startswith(
        "qanat: no broker can be reached: cannot connect to no-such-host.invalid:9092: the name is not known here ("
    )
    assert result.stderr.endswith("): check its spelling\n")
