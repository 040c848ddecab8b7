"""Streams: events as they come, resumed where they broke off, over Server-Sent Events and WebSocket; slow readers."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import wsproto
from tests.servers.http.serving import TIMEOUT_S, ServedNode, node_settings, served
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, Request, TextMessage

from qanat.servers.metrics.process import resident_bytes


class Events:
    """A stream of Server-Sent Events."""

    def __init__(self, node: ServedNode, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
        self._connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        self.response = self._connection.getresponse()

    def close(self) -> None:
        self._connection.close()

    def next(self) -> dict[str, str]:
        """The next event that carries something."""
        fields: dict[str, str] = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields if "data" in fields else self.next()


def test_events_come_as_they_are_written_and_resume_by_the_last_id(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "news", "partitions": 2})
    path = "/api/v1/topics/news/stream"
    with closing(Events(node, path)) as events:
        assert events.response.getheader("content-type") == "text/event-stream"
        assert events.next()["event"] == "open"
        for number in range(6):
            node.post("/produce", {"topic": "news", "value": {"n": number}, "partition": number % 2})
        seen = [events.next() for _ in range(3)]
    assert [json.loads(event["data"])["value"]["n"] for event in seen] == [0, 1, 2]

    with closing(Events(node, path, Last_Event_ID=seen[-1]["id"])) as events:
        assert events.next()["event"] == "open"
        rest = [json.loads(events.next()["data"])["value"]["n"] for _ in range(3)]

    assert sorted(rest) == [3, 4, 5]


def test_a_stream_can_begin_at_the_start_and_reads_committed_records(node: ServedNode) -> None:
    node.post("/produce", {"topic": "old", "value": "a\nb"}, Idempotency_Key="stream")

    with closing(Events(node, "/api/v1/topics/old/stream?from=earliest")) as events:
        assert events.next()["event"] == "open"
        assert json.loads(events.next()["data"])["value"] == "a\nb"


def test_a_topic_that_is_deleted_ends_its_streams_with_a_problem(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "doomed", "partitions": 1})
    with closing(Events(node, "/api/v1/topics/doomed/stream")) as events:
        events.next()
        node.call("DELETE", "/api/v1/topics/doomed")
        last = events.next()

    assert last["event"] == "problem"
    assert json.loads(last["data"])["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


@contextmanager
def websocket(node: ServedNode, path: str, **headers: str) -> Iterator[Iterator[Any]]:
    """A WebSocket client: its events, handshake first."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=TIMEOUT_S) as wire:
        connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        extra = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        wire.sendall(connection.send(Request(host="x", target=path, extra_headers=extra)))

        def events() -> Iterator[Any]:
            while True:
                yield from connection.events()
                connection.receive_data(wire.recv(65536) or None)

        yield events()
        if connection.state is wsproto.connection.ConnectionState.OPEN:
            wire.sendall(connection.send(CloseConnection(1000)))


def test_a_websocket_brings_records_with_the_cursor_to_resume_from(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "sockets", "partitions": 1})
    with websocket(node, "/api/v1/topics/sockets/ws") as events:
        assert isinstance(next(events), AcceptConnection)
        for number in range(4):
            node.post("/produce", {"topic": "sockets", "value": number})
        sent = [json.loads(event.data) for event, _ in zip(events, range(2), strict=False)]
    assert [one["value"] for one in sent] == [0, 1]

    with websocket(node, f"/api/v1/topics/sockets/ws?cursor={sent[-1]['cursor']}") as events:
        assert isinstance(next(events), AcceptConnection)
        rest = [next(events) for _ in range(2)]

    assert all(isinstance(event, TextMessage) for event in rest)
    assert [json.loads(event.data)["value"] for event in rest] == [2, 3]


def test_a_websocket_that_cannot_be_is_refused_with_a_problem(node: ServedNode) -> None:
    with websocket(node, "/api/v1/topics/never-made/ws") as events:
        assert next(event for event in events if isinstance(event, RejectConnection)).status_code == 404
    node.post("/api/v1/topics", {"name": "x"})
    with websocket(node, "/api/v1/topics/x/ws?cursor=nonsense") as events:
        assert next(event for event in events if isinstance(event, RejectConnection)).status_code == 400
    assert node.get("/api/v1/topics/x/ws").status == 426


def test_a_client_has_only_so_many_streams() -> None:
    with served(node_settings(http_streams_per_client=2)) as node:
        node.post("/produce", {"topic": "few", "value": 1})
        path = "/api/v1/topics/few/stream"
        with closing(Events(node, path)) as one, closing(Events(node, path)) as two:
            assert (one.response.status, two.response.status) == (200, 200)
            with closing(Events(node, path)) as three:
                assert three.response.status == 429
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with closing(Events(node, path)) as later:
                if later.response.status == 200:
                    break
            assert time.monotonic() < deadline


def test_readers_that_take_nothing_cost_bounded_memory_and_delay_no_client() -> None:
    """500 streams over 4 MB without a reader, and one with: it gets everything."""
    with served(node_settings()) as node:
        node.post("/api/v1/topics", {"name": "heavy", "partitions": 1})
        rows = [{"value": "x" * 1000} for _ in range(400)]
        for _ in range(10):
            assert node.post("/api/v1/topics/heavy/records", rows).json["failed"] == 0
        before = resident_bytes() or 0
        dead = []
        try:
            for _ in range(500):
                wire = socket.socket()
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.connect(("127.0.0.1", node.port))
                wire.sendall(b"GET /api/v1/topics/heavy/stream?from=earliest HTTP/1.1\r\nHost: x\r\n\r\n")
                dead.append(wire)
            with closing(Events(node, "/api/v1/topics/heavy/stream")) as events:
                events.next()
                for number in range(20):
                    node.post("/produce", {"topic": "heavy", "value": number})
                    assert json.loads(events.next()["data"])["value"] == number
            grown = (resident_bytes() or 0) - before
        finally:
            for wire in dead:
                wire.close()

    assert grown < 500 * 300_000
