"""A request's W3C trace context becomes headers of its records, and OpenTelemetry reads it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "vendor=1,other=2"


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        for name in ("one", "many", "lines", "plain", "once"):
            running.post("/api/v1/topics", {"name": name, "partitions": 1})
        yield running


def headers(node: ServedNode, topic: str) -> list[Any]:
    return [one["headers"] for one in node.get(f"/consume?topic={topic}").json["messages"]]


def test_every_way_to_write_carries_the_trace(node: ServedNode) -> None:
    trace = {"traceparent": PARENT, "tracestate": STATE}
    assert node.post("/produce", {"topic": "one", "value": 1}, **trace).status == 200
    rows = [{"value": 1, "headers": {"a": "b"}}, {"value": 2, "headers": {"traceparent": "mine"}}]
    assert node.post("/api/v1/topics/many/records", rows, **trace).status == 200
    lines = {**trace, "Content-Type": "application/x-ndjson"}
    assert node.call("POST", "/api/v1/topics/lines/records", b'{"value": 1}\n{"value": 2}\n', lines).status == 200
    once = {**trace, "Idempotency-Key": "k1"}
    for _ in range(2):
        assert node.call("POST", "/api/v1/topics/once/records", {"value": 1}, once).status == 200

    assert headers(node, "one") == [trace]
    assert headers(node, "many") == [{"a": "b", **trace}, {"traceparent": "mine"}]
    assert headers(node, "lines") == [trace, trace]
    assert headers(node, "once") == [trace]


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        PARENT + "\u00e9",
        "x" * 5000,
    ],
)
def test_what_is_no_trace_context_is_ignored(node: ServedNode, wrong: str) -> None:
    sent = {"traceparent": wrong.encode("latin-1").decode("latin-1"), "tracestate": STATE}
    assert node.call("POST", "/produce", {"topic": "plain", "value": 1}, sent).status == 200

    assert headers(node, "plain")[-1] == {}


def test_a_tracestate_that_is_none_is_left_out(node: ServedNode) -> None:
    for state in ("x" * 600, "a\tb"):
        node.call("POST", "/produce", {"topic": "one", "value": 1}, {"traceparent": PARENT, "tracestate": state})
        assert headers(node, "one")[-1] == {"traceparent": PARENT}


def test_opentelemetry_goes_on_with_the_trace(node: ServedNode) -> None:
    from opentelemetry import trace

    from qanat.client.app.tracing import carrier_of

    node.post("/produce", {"topic": "one", "value": 1}, traceparent=PARENT)
    (found,) = headers(node, "one")[-1:]
    from opentelemetry import propagate

    context = propagate.extract(carrier_of([(name, text.encode()) for name, text in found.items()]))
    span = trace.get_current_span(context).get_span_context()
    assert f"{span.trace_id:032x}-{span.span_id:016x}" == PARENT[3:52]
