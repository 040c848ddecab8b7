"""Traces by OpenTelemetry, where it is installed: W3C context in headers, a span per record, links for batches.

A span is made where somebody records spans: a tracer provider is set. Where none is, a record that carries a context
has it passed on to what its handler sends, as the API without an SDK does everywhere; other records cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from msgspec.structs import replace

from qanat.client.app.handlers import Handler
from qanat.client.app.ports import Raw
from qanat.client.app.sending import Send
from qanat.client.trace_headers import W3C, trace_headers


class Tracing:
    """The traces of one app."""

    def __init__(self) -> None:
        self._trace: Any = None
        self._propagate: Any = None
        self._headers = trace_headers()
        self.is_recording = False
        """Whether somebody gets the spans."""
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            return
        self._trace, self._propagate = trace, propagate
        self._tracer = trace.get_tracer("qanat.client")
        self.look()

    def look(self) -> None:
        """See whether a provider is set by now: apps often set one when they start. Called once for many records."""
        if self._trace is None or self.is_recording:
            return
        nobodys = (self._trace.ProxyTracerProvider, self._trace.NoOpTracerProvider)
        is_own = not isinstance(self._tracer, self._trace.ProxyTracer | self._trace.NoOpTracer)
        self.is_recording = is_own or not isinstance(self._trace.get_tracer_provider(), nobodys)

    def is_traced(self, record: Raw) -> bool:
        """Whether a record has a span, or a context to be passed on."""
        if self.is_recording:
            return True
        headers = record.headers
        return bool(headers) and self._trace is not None and any(name.lower() in W3C for name, _ in headers)

    def handling(self, handler: Handler, record: Raw) -> AbstractContextManager[object]:
        """The span of one record, a child of its producer's."""
        return self._span(handler, record) if self.is_traced(record) else nullcontext()

    @contextmanager
    def _span(self, handler: Handler, record: Raw) -> Iterator[None]:
        parent = self._propagate.extract(carrier_of(record.headers))
        attributes: dict[str, Any] = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.partition),
            "messaging.kafka.message.offset": record.offset,
            "messaging.consumer.group.name": handler.group,
        }
        kind = self._trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            f"{record.topic} process", context=parent, kind=kind, attributes=attributes
        ):
            yield

    def handling_batch(
        self, handler: Handler, headers: Sequence[tuple[tuple[str, bytes | None], ...]]
    ) -> AbstractContextManager[object]:
        """The span of a batch, linked to the span of every record that has one."""
        if not self.is_recording:
            return nullcontext()
        links = []
        for one in headers:
            found = self._trace.get_current_span(self._propagate.extract(carrier_of(one))).get_span_context()
            if found.is_valid:
                links.append(self._trace.Link(found))
        span: AbstractContextManager[object] = self._tracer.start_as_current_span(
            f"{handler.topics[0]} process", kind=self._trace.SpanKind.CONSUMER, links=links
        )
        return span

    def injected(self, send: Send) -> Send:
        """The record to be sent with the trace's context in its headers."""
        if self._headers is None or any(name in W3C for name, _ in send.headers):
            return send
        return replace(send, headers=(*send.headers, *self._headers()))


def carrier_of(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """The headers that carry a trace, as OpenTelemetry reads them; broken ones are left out."""
    return {
        name: value.decode("ascii", "replace")
        for name, value in headers
        if name.lower() in W3C and value is not None and len(value) <= 1024
    }
