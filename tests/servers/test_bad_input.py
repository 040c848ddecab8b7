"""Bad input of every kind: the connection closes or the error is Kafka's, and other clients are served meanwhile."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import time
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest
from tests.servers.victim import GREETING, Victim, ending, exactly, is_ended
from tests.wire.kafka.forgeries import Forge, lies
from tools.codec import api_source
from tools.codec.schema import Layout

from qanat.api.api_table import SERVED, ServedApi
from qanat.app.node.event_log import configure
from qanat.telemetry.events import log_event
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, write_request
from qanat.wire.kafka.registry import ApiKey

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    started = Victim(tmp_path_factory.mktemp("victim"))
    yield started
    started.close()


@pytest.fixture(autouse=True)
def _unharmed(victim: Victim) -> Iterator[None]:
    """After every test: no bug came to light, and a new client is served."""
    yield
    assert victim.bugs() == []
    assert victim.is_alive()


@cache
def request_layouts(name: str) -> dict[int, Layout]:
    (api,) = [api for api in api_source.all_apis() if api.name == name]
    return api.request.layouts


def frame(key: int, version: int, body: bytes, client_id: str = "attacker") -> bytes:
    return b"".join(frame_request(key, version, 1, client_id, [body]))


def is_closed_by(victim: Victim, data: bytes) -> bool:
    with victim.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
        return ending(client) == "closed"


def test_a_broker_that_stands_still_is_noticed(victim: Victim) -> None:
    with (
        pytest.raises(AssertionError, match=r"another client waited for \d+\.\d+ s; try again"),
        victim.watched(longest_s=0.5, replay="try again"),
        victim.standing_still(),
    ):
        time.sleep(1.2)


def test_a_broker_that_computes_for_long_is_noticed(victim: Victim) -> None:
    with (
        pytest.raises(AssertionError, match=r"the broker computed for \d+\.\d+ s while another client waited"),
        victim.watched(longest_cpu_s=0.0),
    ):
        ask_often(victim)


def ask_often(victim: Victim) -> None:
    """A few tenths of a second of work for the broker."""
    with victim.connect() as client:
        for _ in range(5):
            client.sendall(GREETING * 500)
            for _ in range(500):
                (size,) = struct.unpack(">i", exactly(client, 4))
                exactly(client, size)


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_every_length_that_lies_ends_the_connection(victim: Victim, served: ServedApi) -> None:
    before = victim.rss_bytes
    with victim.watched():
        for version in range(served.first_version, served.last_version + 1):
            forged = Forge()
            forged.struct(request_layouts(served.api.name)[version])
            for what, data in lies(forged):
                assert is_closed_by(victim, frame(served.key, version, data)), f"v{version}, {what}"

    assert victim.rss_bytes - before < 32 * MIB


@pytest.mark.parametrize("served", SERVED.values(), ids=lambda served: served.api.name)
def test_every_request_that_is_cut_off_ends_the_connection(victim: Victim, served: ServedApi) -> None:
    forged = Forge()
    forged.struct(request_layouts(served.api.name)[served.last_version])
    for end in range(len(forged.data)):
        assert is_closed_by(victim, frame(served.key, served.last_version, bytes(forged.data[:end]))), end


@pytest.mark.parametrize(
    ("key", "version"), [(4, 0), (999, 0), (-1, 0), (32767, 3), (0, 2), (0, 14), (1, 3), (3, -1), (3, 99), (19, 1)]
)
def test_an_api_or_a_version_that_is_not_served_ends_the_connection(victim: Victim, key: int, version: int) -> None:
    assert is_closed_by(victim, frame(key, version, bytes(64)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x80\x00\x00\x00",
        b"\x00\x00\x00\x00",
        bytes.fromhex("16030100ca010000c6") + bytes(198),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"POST /topics HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x00\x00\x0a" + struct.pack(">hhih", 18, 0, 1, -2),
        b"\x00\x00\x00\x0c" + struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
    ],
    ids=["huge", "minus one", "most negative", "empty", "TLS", "GET", "POST", "SSH", "client id", "not UTF-8"],
)
def test_what_is_no_request_of_the_protocol_ends_the_connection(victim: Victim, data: bytes) -> None:
    assert is_closed_by(victim, data)


def test_random_bytes_end_the_connection_or_wait_for_the_rest(victim: Victim) -> None:
    random = Random(7)
    for _ in range(200):
        with victim.connect() as client, contextlib.suppress(ConnectionError):
            sent = random.randbytes(random.randrange(1, 5000))
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert is_ended(client, sent)


def test_four_megabytes_of_empty_tagged_fields_hurt_no_client(victim: Victim) -> None:
    count = 2 * MIB
    tags = bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14 & 0x7F | 0x80, count >> 21]) + bytes(
        2 * count
    )
    bomb = frame(ApiKey.METADATA, 9, b"\x00\x00\x00\x00" + tags)
    with victim.watched():
        for _ in range(5):
            assert is_closed_by(victim, bomb)


def test_many_slow_senders_keep_no_client_waiting(victim: Victim) -> None:
    before = victim.rss_bytes
    announced = struct.pack(">i", 90 * MIB)
    slow = [victim.connect() for _ in range(500)]
    try:
        with victim.watched():
            for number in range(10):
                for client in slow:
                    client.sendall(announced[number : number + 1] or b"\0")
                time.sleep(0.05)
        assert victim.rss_bytes - before < 100 * MIB, "an announcement is not yet memory"
    finally:
        for client in slow:
            client.close()


def test_idle_connections_cost_little(victim: Victim) -> None:
    before = victim.rss_bytes
    idle = [victim.connect() for _ in range(2000)]
    try:
        for client in idle:
            client.sendall(GREETING)
        for client in idle:
            (size,) = struct.unpack(">i", exactly(client, 4))
            exactly(client, size)
        per_connection = (victim.rss_bytes - before) / len(idle)
        assert per_connection < 16 * 1024
        with victim.watched():
            time.sleep(0.3)
    finally:
        for client in idle:
            client.close()


def test_a_client_that_never_reads_its_answers_is_not_read_any_more(victim: Victim) -> None:
    before = victim.rss_bytes
    with victim.connect(0.5) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 * MIB:
                sent += client.send(GREETING * 1000)
        assert sent < 64 * MIB, "the broker goes on reading from a client that does not"
        with victim.watched():
            time.sleep(0.2)
    assert victim.rss_bytes - before < 32 * MIB


def test_a_fetch_that_would_wait_for_weeks_ends_with_its_client(victim: Victim) -> None:
    row = FetchPartition(0, -1, 0, partition_max_bytes=1000)
    waiting = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, session_epoch=-1, topics=[FetchTopic("t", b"", [row])])
    created = frame(ApiKey.METADATA, 4, struct.pack(">ih", 1, 1) + b"t\x01")
    with victim.connect() as client:
        client.sendall(created)
        assert ending(client) == "answered"
    data = b"".join(frame_request(ApiKey.FETCH, 11, 1, "attacker", write_request(waiting, 11)))
    before = victim.rss_bytes
    for _ in range(2000):
        with victim.connect() as client:
            client.sendall(data)
    assert victim.is_alive()
    assert victim.rss_bytes - before < 8 * MIB


def test_a_client_may_leave_in_the_middle_of_everything(victim: Victim) -> None:
    random = Random(11)
    requests = [
        frame(served.key, version, bytes(_valid(served, version)))
        for served in SERVED.values()
        for version in (served.first_version, served.last_version)
    ]
    for data in requests:
        for _ in range(3):
            with victim.connect() as client, contextlib.suppress(ConnectionError):
                client.sendall(data * random.randrange(1, 4) + data[: random.randrange(len(data))])


def _valid(served: ServedApi, version: int) -> bytearray:
    forged = Forge()
    forged.struct(request_layouts(served.api.name)[version])
    return forged.data


@pytest.mark.parametrize(
    "breaker", ["a\r\nERROR all is lost", "\x1b[31mred", "a\x00b", '"},{"level":"error', "é\u2028x"]
)
def test_what_clients_call_themselves_breaks_no_line_of_the_log(victim: Victim, breaker: str) -> None:
    assert is_closed_by(victim, frame(999, 0, b"", client_id=breaker))
    name = breaker.encode()
    with victim.connect() as client:
        client.sendall(frame(ApiKey.METADATA, 4, struct.pack(">ih", 1, len(name)) + name + b"\x01", client_id=breaker))
        assert ending(client) == "answered"

    assert [line for line in victim.log().split("\n") if line and not line.startswith("{")] == []
    assert not any(letter in victim.log() for letter in ("\r", "\x1b", "\x00"))


def test_the_log_of_people_shows_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # The handler goes with this test, and so does its stream.
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    values = ("a\r\nb", "\x1b[31m", "a\x00b", "\u2028", "\x85")
    configure("text", "info")
    for value in values:
        log_event("client cut off", client=value)

    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == len(values) + 1
    assert all(line.isprintable() for line in lines)
