"""Traces on records: a producer writes the span that it is called in, whichever way OpenTelemetry keeps it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

from qanat.client.producer.accumulator import Accumulator
from qanat.client.producer.partitioners import murmur2
from qanat.client.producer.sending import Plan, Sender
from qanat.wire.compression import Codec
from qanat.wire.records import BatchFields, decode_records, sealed

TRACER = TracerProvider().get_tracer("test")


class Sent:
    """A sender, and the headers of what it was given."""

    def __init__(self) -> None:
        accumulator = Accumulator(batch_bytes=1 << 16, buffer_bytes=1 << 20, record_bytes=1 << 16, wake=lambda: None)
        self._sender = Sender(accumulator, murmur2, None, None)
        self._sender.plans["orders"] = self._plan = Plan("orders", 1)

    def send(self, *headers: tuple[str, bytes]) -> None:
        assert self._sender.send("orders", b"v", None, headers, None, 1000) is not None

    @property
    def headers(self) -> list[dict[str, bytes | None]]:
        delivery = self._plan.lines[0].open
        assert delivery is not None
        builder = delivery.builder
        count, payload = builder.count, builder.finish()
        batch = sealed(payload, BatchFields(), Codec.NONE, count, count - 1, 1000, 1000)
        return [dict(record.headers) for record in decode_records(batch, 1 << 20)]


@pytest.fixture(params=["variable", "another runtime"])
def sent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sent:
    if request.param == "another runtime":
        usual = context._RUNTIME_CONTEXT
        methods = {name: getattr(usual, name) for name in ("attach", "get_current", "detach")}
        monkeypatch.setattr(context, "_RUNTIME_CONTEXT", SimpleNamespace(**methods))
    return Sent()


def test_a_record_carries_the_span_that_it_is_sent_in(sent: Sent) -> None:
    sent.send()
    with trace.use_span(TRACER.start_span("work")) as span:
        sent.send()
        sent.send(("traceparent", b"its own"))
        # A thread has a context of its own, and no span.
        thread = threading.Thread(target=sent.send)
        thread.start()
        thread.join()
    sent.send()
    found = span.get_span_context()
    header = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}".encode()
    assert sent.headers == [{}, {"traceparent": header}, {"traceparent": b"its own"}, {}, {}]
