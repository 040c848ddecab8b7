"""Idempotency keys: a repeat writes nothing and gets the first answer, whatever happened in between."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from tests.servers.http.serving import TIMEOUT_S, ServedNode, node_settings, served

NDJSON = "application/x-ndjson"


def values(node: ServedNode, topic: str) -> list[object]:
    """Every value, read by cursors."""
    found: list[object] = []
    cursor = ""
    while True:
        page = node.get(f"/api/v1/topics/{topic}/records?count=500{cursor}").json
        if not page["messages"]:
            return found
        found += [message["value"] for message in page["messages"]]
        cursor = f"&cursor={page['next_cursor']}"


def test_a_repeat_gets_the_first_answer_and_writes_nothing_also_after_a_restart(tmp_path: Path) -> None:
    body = {"topic": "once", "key": "k", "value": 1}
    rows = [{"value": number} for number in range(10)]
    settings = node_settings(str(tmp_path))
    with served(settings) as node:
        first = node.post("/produce", body, Idempotency_Key="one")
        many = node.post("/api/v1/topics/once/records", rows, Idempotency_Key="many")
        again = node.post("/produce", body, Idempotency_Key="one")
        assert (first.status, many.status) == (200, 200)
        assert "idempotency-replayed" not in first.headers
        assert (again.status, again.body, again.headers["idempotency-replayed"]) == (200, first.body, "true")
        assert node.post("/produce", {**body, "value": 2}, Idempotency_Key="one").status == 422
        assert len(values(node, "once")) == 11

    with served(settings) as node:
        assert node.post("/produce", body, Idempotency_Key="one").body == first.body
        assert node.post("/api/v1/topics/once/records", rows, Idempotency_Key="many").body == many.body
        assert node.post("/produce", body, Idempotency_Key="two").json["offset"] > first.json["offset"]
        assert len(values(node, "once")) == 12


def test_a_request_under_a_key_is_written_as_a_whole_or_not_at_all(node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "whole", "partitions": 1, "configs": {"max.message.bytes": 2000}})

    answer = node.post("/api/v1/topics/whole/records", [{"value": 1}, {"value": "x" * 5000}], Idempotency_Key="w")

    assert answer.status == 413
    assert values(node, "whole") == []
    assert node.post("/api/v1/topics/whole/records", [{"value": 1}], Idempotency_Key="w").status == 200
    assert values(node, "whole") == [1]


def test_a_repeat_is_answered_even_when_its_topic_is_gone(node: ServedNode) -> None:
    body = {"topic": "gone", "value": 1}
    first = node.post("/produce", body, Idempotency_Key="gone")
    node.call("DELETE", "/api/v1/topics/gone")

    assert node.post("/produce", body, Idempotency_Key="gone").body == first.body
    assert node.get("/api/v1/topics/gone").status == 404


def test_repeats_at_the_same_time_write_once(node: ServedNode) -> None:
    body = {"topic": "together", "value": 1}

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(node.post, "/produce", body, Idempotency_Key="same") for _ in range(8)]

    assert len({answer.result().body for answer in answers}) == 1
    assert values(node, "together") == [1]


def test_answers_that_are_cut_off_lose_nothing_and_double_nothing(node: ServedNode) -> None:
    """Connections are cut at drawn moments, requests repeated until answered, and everything read by cursors."""
    draw = random.Random(8)
    sent = 60
    seen: list[object] = []

    def produce(number: int) -> None:
        body = msgspec.json.encode({"topic": "cut", "key": f"k{number}", "value": number})
        head = (
            f"POST /produce HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: cut-{number}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        for cut in [draw.randrange(len(head) + len(body) + 200) for _ in range(draw.randrange(3))]:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", node.port), 30) as wire:
                wire.settimeout(0.05)
                wire.sendall((head + body)[:cut])
                if cut > len(head) + len(body):
                    wire.recv(cut - len(head) - len(body))
        assert node.post("/produce", body, Idempotency_Key=f"cut-{number}").status == 200

    def read() -> None:
        cursor = ""
        while len(seen) < sent:
            path = f"/api/v1/topics/cut/records?count=5&timeout_ms=200{cursor}"
            if draw.random() < 0.3:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", node.port), 30) as wire:
                    wire.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    wire.settimeout(0.05)
                    wire.recv(draw.randrange(1, 400))
            page = node.get(path).json
            seen.extend(message["value"] for message in page["messages"])
            cursor = f"&cursor={page['next_cursor']}"

    node.post("/api/v1/topics", {"name": "cut"})
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, range(sent)))
    reader.join(TIMEOUT_S)

    assert sorted(seen, key=str) == sorted(range(sent), key=str)
    assert sorted(values(node, "cut"), key=str) == sorted(range(sent), key=str)
