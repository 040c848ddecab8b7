"""Refusals over HTTP: every one is a problem document that says what, where and what to do."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import Answer, ServedNode, node_settings, served

from qanat.security.settings import SecuritySettings


@pytest.fixture(scope="module")
def strict() -> Iterator[ServedNode]:
    limits: dict[str, Any] = {
        "http_read_timeout_ms": 700,
        "http_request_max_bytes": 10_000,
        "http_inflated_max_bytes": 20_000,
        "http_header_max_bytes": 4_000,
        "http_max_connections": 20,
    }
    with served(node_settings(**limits)) as running:
        running.post("/produce", {"topic": "t", "value": 1, "partition": 0})
        yield running


def refused(answer: Answer, status: int, *words: str) -> Answer:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= set(answer.json)
    for word in words:
        assert word in answer.json["detail"]
    return answer


def test_malformed_json_is_refused_with_its_position(strict: ServedNode) -> None:
    answer = refused(strict.post("/produce", b'{"topic": "t", "value": nope}'), 400, "not JSON", "byte 25")
    assert answer.json["position"] == 25
    refused(strict.post("/produce", b'{"topic": "t", "value": 1'), 400, "truncated")
    refused(strict.post("/produce", b'{"topic": "t", "value": "\xff"}'), 400, "UTF-8", "byte 25")
    refused(strict.post("/produce", b'{"topic": "t", "value": ' + b"[" * 4000 + b"]" * 4000 + b"}"), 400, "nested")
    lines = b'{"value": 1}\n{"value": }\n'
    refused(strict.post("/api/v1/topics/t/records", lines, Content_Type="application/x-ndjson"), 400, "line 2")


def test_wrong_types_and_unknown_members_are_named(strict: ServedNode) -> None:
    assert refused(strict.post("/produce", {"topic": 7, "value": 1}), 400, "str").json["pointer"] == ".topic"
    refused(strict.post("/produce", {"topic": "t", "valu": 1}), 400)
    refused(strict.post("/produce", {"topic": "t", "value": 1, "partition": "x"}), 400, ".partition")
    refused(strict.post("/produce", {"topic": "t", "value": 1, "value_encoding": "text"}), 400, "JSON string")
    refused(strict.post("/produce", {"value": 1}), 400, "topic is missing")
    refused(strict.post("/api/v1/topics", {"name": "x", "partitions": 0}), 400, ".partitions")
    refused(strict.post("/subscribe", {"group": "", "topics": ["t"]}), 400, ".group")


def test_topics_partitions_and_offsets_that_are_not_there(strict: ServedNode) -> None:
    refused(strict.get("/api/v1/topics/nope"), 404, "there is no topic nope")
    for path in ("/consume?topic=nope&partition=0", "/api/v1/topics/nope/records", "/api/v1/topics/nope/stream"):
        refused(strict.get(path), 404, "there is no topic nope")
    refused(strict.get("/consume?topic=t&partition=9"), 404, "numbered 0 to 3")
    refused(strict.post("/produce", {"topic": "t", "value": 1, "partition": 9}), 404, "numbered 0 to 3")
    answer = refused(strict.get("/consume?topic=t&partition=0&offset=99"), 416, "offsets 0 to 1")
    assert (answer.json["earliest_offset"], answer.json["latest_offset"]) == (0, 1)
    refused(strict.post("/produce", {"topic": "no/name", "value": 1}), 400, "letters, digits")
    refused(strict.get("/api/v1/groups/nope"), 404, "there is no group nope")
    subscribed = strict.post("/subscribe", {"group": "g", "topics": ["t"]})
    assert subscribed.status == 200
    for body in ({"value": 1}, [{"value": 1}]):
        answer = strict.post("/api/v1/topics/__consumer_offsets/records", body).json
        problem = answer["results"][0]["problem"] if "results" in answer else answer
        assert (problem["status"], "brokers only" in problem["detail"]) == (403, True)


def test_queries_are_checked(strict: ServedNode) -> None:
    refused(strict.get("/consume?topic=t&partitio=0"), 400, "did you mean partition?")
    refused(strict.get("/consume?topic=t&partition=x"), 400, "partition")
    refused(strict.get("/consume?topic=t&partition=0&partition=1"), 400, "twice")
    refused(strict.get("/consume?topic=t&partition=0&count=0"), 400, "count")
    refused(strict.get("/health?x=1"), 400, "unknown query parameter")
    refused(strict.post("/produce?acks=maybe", {"topic": "t", "value": 1}), 400, "choose all or leader or none")
    refused(strict.get("/consume?topic=t&partition=0&offset=first"), 400, "choose earliest or latest or a number")
    refused(strict.get("/consume?topic=%ff"), 400, "UTF-8")


def test_addresses_methods_and_content_types(strict: ServedNode) -> None:
    refused(strict.get("/nothing/here"), 404, "/docs")
    assert refused(strict.call("PUT", "/produce"), 405).headers["allow"] == "POST"
    refused(strict.post("/produce", b"a=1", Content_Type="application/x-www-form-urlencoded"), 415, "application/json")
    refused(strict.post("/produce", b"x", Content_Encoding="br"), 415, "gzip")


def test_web_pages_of_other_sites_are_refused(strict: ServedNode) -> None:
    refused(strict.get("/health", Origin="https://elsewhere.example"), 403, "another origin")
    refused(strict.post("/produce", {"topic": "t", "value": 1}, Origin="null"), 403)
    assert strict.get("/health", Origin=strict.url).status == 200


@pytest.mark.parametrize("allowed", ["https://a.example, https://pages.example", "*"], ids=["listed", "every page"])
def test_pages_of_listed_origins_may_use_the_broker(allowed: str) -> None:
    page = "https://pages.example"
    ask = {"Origin": page, "Access-Control-Request-Method": "POST"}
    with served(node_settings(http_cors_allowed_origins=allowed)) as running:
        asked = running.call("OPTIONS", "/produce", headers=ask)
        assert (asked.status, asked.headers["access-control-allow-origin"]) == (200, page)
        assert asked.headers["access-control-allow-methods"] == "POST"
        assert "authorization" in asked.headers["access-control-allow-headers"]
        for answer in (
            running.post("/produce", {"topic": "t", "value": 1}, Origin=page),
            running.get("/api/v1/topics/nope", Origin=page),
        ):
            assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (page, "origin")
        assert "access-control-allow-origin" not in running.get("/health").headers, "it lasts for one request"
        refused(running.call("OPTIONS", "/nope", headers=ask), 404)


def test_pages_of_other_origins_get_no_permission(strict: ServedNode) -> None:
    ask = {"Origin": "https://pages.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in refused(strict.call("OPTIONS", "/produce", headers=ask), 405).headers
    with served(node_settings(http_cors_allowed_origins="https://a.example")) as running:
        assert (
            "access-control-allow-origin" not in refused(running.call("OPTIONS", "/produce", headers=ask), 405).headers
        )
        refused(running.get("/health", Origin=ask["Origin"]), 403, "http.cors.allowed.origins")


def test_pages_that_resolve_their_name_to_the_broker_are_refused(strict: ServedNode) -> None:
    foreign = "pages.example:8080"
    record = {"topic": "t", "value": 1}
    refused(strict.get("/health", Host=foreign), 421, "'pages.example'", "http.allowed.hosts")
    refused(strict.get("/consume?topic=t", Host=foreign, Origin=f"http://{foreign}"), 421)
    refused(strict.post("/produce", record, Host=foreign), 421)
    for name in ("localhost:1", "queue", "10.1.2.3", "[::1]:8080"):
        assert strict.post("/produce", record, Host=name).status == 200, name
        assert strict.post("/produce", record, Host=name).status == 200, "on the fast path, too"
    refused(strict.post("/produce", record, Host=foreign), 421)


@pytest.mark.parametrize("allowed", ["other.example, Pages.example", "*"], ids=["listed", "every name"])
def test_listed_names_are_accepted(allowed: str) -> None:
    with served(node_settings(http_allowed_hosts=allowed)) as running:
        assert running.get("/health", Host="pages.example:8080").status == 200


def test_a_broker_with_authentication_is_called_by_any_name() -> None:
    """Its pages have no rights of their own."""
    security = SecuritySettings(listener_security_protocol="SASL_PLAINTEXT", sasl_enabled_mechanisms="SCRAM-SHA-256")
    with served(replace(node_settings(), security=security)) as running:
        assert running.get("/health", Host="pages.example").status == 200
        assert running.get("/consume?topic=t", Host="pages.example").status == 401


def test_sizes_are_limited(strict: ServedNode) -> None:
    refused(strict.post("/produce", {"topic": "t", "value": "x" * 20_000}), 413, "http.request.max.bytes")
    bomb = gzip.compress(b'{"topic": "t", "value": "' + b"x" * 1_000_000 + b'"}')
    refused(strict.post("/produce", bomb, Content_Encoding="gzip"), 413, "http.inflated.max.bytes")
    whole = gzip.compress(b'{"topic": "t", "value": 1}')
    refused(strict.post("/produce", whole[:-9], Content_Encoding="gzip"), 400, "gzip")
    refused(strict.get("/health", X_Large="x" * 5000), 431, "http.header.max.bytes")
    refused(strict.get("/" + "x" * 9000), 431)


def talk(node: ServedNode, *pieces: bytes) -> bytes:
    """Send raw bytes and read until the server closes."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


def test_what_is_no_http_is_refused_in_the_same_form(strict: ServedNode) -> None:
    received = talk(strict, b"\x16\x03\x01 hello\r\n\r\n")

    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in received


@pytest.mark.parametrize(
    "piece",
    [
        b'POST /produce HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"top',
        b"POST /produce HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow",
        b"",
    ],
    ids=["unfinished chunk", "unfinished body", "unfinished header", "silence"],
)
def test_a_client_that_stops_in_a_request_is_closed(strict: ServedNode, piece: bytes) -> None:
    began = time.monotonic()

    received = talk(strict, piece)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"http.read.timeout.ms" in received
    assert time.monotonic() - began < 25


def test_a_client_that_sends_its_headers_byte_by_byte_is_closed(strict: ServedNode) -> None:
    received = b""
    with socket.create_connection(("127.0.0.1", strict.port)) as slow:
        slow.settimeout(0.1)
        slow.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        deadline = time.monotonic() + 60
        while not received and time.monotonic() < deadline:
            slow.sendall(b"x")
            try:
                received = slow.recv(1000)
            except TimeoutError:
                continue

    assert received.startswith(b"HTTP/1.1 408 ")


def test_more_connections_than_allowed_are_refused_with_retry_after(strict: ServedNode) -> None:
    open_ones = [socket.create_connection(("127.0.0.1", strict.port)) for _ in range(20)]
    try:
        answer = strict.get("/health")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    finally:
        for one in open_ones:
            one.close()
    deadline = time.monotonic() + 60
    while strict.get("/health").status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_topics_are_not_created_where_that_is_switched_off() -> None:
    settings = node_settings()
    closed = replace(settings, broker=replace(settings.broker, auto_create_topics_enable=False))
    with served(closed) as node:
        answer = refused(node.post("/produce", {"topic": "new", "value": 1}), 404, "there is no topic new")
        assert answer.json["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        refused(node.get("/consume?topic=new&partition=0"), 404)
