"""Traces by the real OpenTelemetry: from a producer through headers to handlers and what they send."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from tests.client.app.memory_clients import MemoryClients, raw
from tests.client.app.test_stream_worker import Running, simulated

from qanat.client import App, AsyncConsumer, AsyncProducer, Consumer, Producer, Send
from qanat.client.app.ports import Raw
from qanat.client.app.tracing import Tracing, carrier_of
from qanat.testing import EmbeddedBroker

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01".encode()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What is exported; the process's own provider stays as it is."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def traced(offset: int) -> Raw:
    record = raw(offset)
    record.headers = (("traceparent", PARENT),)
    return record


def id_of(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def header_of(span: ReadableSpan) -> bytes:
    trace_id, span_id = id_of(span)
    assert span.context is not None
    return f"00-{trace_id}-{span_id}-{span.context.trace_flags:02x}".encode()


def test_a_record_is_a_span_below_its_producers_and_what_it_sends_carries_the_trace(
    spans: InMemorySpanExporter,
) -> None:
    app = App("x:1")

    @app.stream("orders", group="billing")
    async def bill(order: bytes) -> Send:
        return Send("bills", b"1", headers=(("a", b"b"),))

    async def scene() -> None:
        async with Running(app, MemoryClients(traced(7))) as running:
            (span,) = spans.get_finished_spans()
            (sent,) = running.clients.sent
            assert span.name == "orders process"
            assert span.parent is not None
            assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE_ID, SPAN_ID)
            assert id_of(span)[0] == TRACE_ID
            assert span.attributes is not None
            assert span.attributes["messaging.kafka.message.offset"] == 7
            assert span.attributes["messaging.consumer.group.name"] == "billing"
            assert sent.headers == (("a", b"b"), ("traceparent", header_of(span)))

    simulated(scene())


def test_records_of_one_slot_have_spans_of_their_own(spans: InMemorySpanExporter) -> None:
    app = App("x:1")
    current: list[int] = []

    @app.stream("orders", group="billing", concurrency=1)
    async def bill(order: bytes) -> None:
        await asyncio.sleep(1)
        current.append(trace.get_current_span().get_span_context().span_id)

    async def scene() -> None:
        async with Running(app, MemoryClients(traced(0), raw(1))):
            first, second = spans.get_finished_spans()
            assert [f"{one:016x}" for one in current] == [id_of(first)[1], id_of(second)[1]]
            assert first.parent is not None
            assert second.parent is None
            assert not trace.get_current_span().get_span_context().is_valid

    simulated(scene())


def test_a_sync_handler_in_a_thread_sees_the_span_of_its_record(spans: InMemorySpanExporter) -> None:
    app = App("x:1")
    current: list[str] = []

    @app.stream("orders", group="billing")
    def bill(order: bytes) -> None:
        current.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")

    async def scene() -> None:
        async with Running(app, MemoryClients(traced(0)), for_s=0.5):
            assert current == [TRACE_ID]

    asyncio.run(scene())


def test_a_batch_is_one_span_linked_to_those_of_its_records(spans: InMemorySpanExporter) -> None:
    app = App("x:1")

    @app.table_batch("orders", group="lake")
    def load(batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    with Tracing().handling_batch(app.handlers[-1], [(("traceparent", PARENT),), (("other", b"x"),)]):
        pass
    (span,) = spans.get_finished_spans()
    assert [(f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in span.links] == [
        (TRACE_ID, SPAN_ID)
    ]
    assert span.parent is None


def test_a_producer_puts_the_callers_span_into_headers_and_a_consumer_reads_it(spans: InMemorySpanExporter) -> None:
    tracer = trace.get_tracer("user")

    async def asynchronous(address: str) -> bytes | None:
        async with AsyncProducer(address) as producer:
            with tracer.start_as_current_span("async"):
                await producer.send("asynchronous", b"1", headers=[("a", b"b")])
        async with AsyncConsumer(address, "asynchronous", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                assert record.headers[0] == ("a", b"b")
                return dict(record.headers)["traceparent"]
        return None

    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        broker.create_topic("asynchronous")
        with Producer(broker.bootstrap_servers) as producer:
            with tracer.start_as_current_span("order"):
                producer.send("orders", b"1")
                producer.send("orders", b"2", headers={"traceparent": PARENT})
            producer.send("orders", b"3")
        with Consumer(broker.bootstrap_servers, "orders", auto_offset_reset="earliest") as consumer:
            records: list[Any] = []
            while len(records) < 3:
                records += consumer.poll(timeout_s=10)
        read = asyncio.run(asynchronous(broker.bootstrap_servers))
    order, asked = spans.get_finished_spans()
    assert [one.headers for one in records] == [
        (("traceparent", header_of(order)),),
        (("traceparent", PARENT),),
        (),
    ]
    assert read == header_of(asked)


def test_only_trace_headers_of_a_sane_size_are_carried() -> None:
    headers = [("traceparent", PARENT), ("other", b"x"), ("tracestate", b"a" * 2000), ("Traceparent", None)]
    assert carrier_of(headers) == {"traceparent": PARENT.decode()}


def test_without_opentelemetry_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing = Tracing()
    assert not tracing.is_traced(traced(0))
    send = Send("t")
    assert tracing.injected(send) is send


def test_where_nobody_records_spans_none_is_made_and_a_context_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    app = App("x:1")

    @app.stream("orders", group="billing")
    async def bill(order: bytes) -> Send:
        return Send("bills", order)

    async def scene() -> None:
        made: list[str] = []
        monkeypatch.setattr(Tracing, "_span", _noting(made, Tracing._span))
        async with Running(app, MemoryClients(traced(0), raw(1), raw(2))) as running:
            assert made == ["orders"], "only the record with a context"
            # The specification of the API: without an SDK, the parent's context goes on as it is.
            assert [one.headers for one in running.clients.sent] == [(("traceparent", PARENT),), (), ()]

    simulated(scene())


def test_a_provider_that_is_set_when_the_app_has_begun_gets_the_spans_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    tracing, exporter = Tracing(), InMemorySpanExporter()
    assert not tracing.is_traced(raw(0))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    tracing.look()
    assert tracing.is_traced(raw(0))
    app = App("x:1")

    @app.stream("orders", group="billing")
    async def bill(order: bytes) -> None: ...

    with tracing.handling(app.handlers[-1], raw(0)):
        pass
    assert [one.name for one in exporter.get_finished_spans()] == ["orders process"]


def _noting(made: list[str], span: Any) -> Any:
    def noting(self: Tracing, handler: Any, record: Raw) -> Any:
        made.append(record.topic)
        return span(self, handler, record)

    return noting
