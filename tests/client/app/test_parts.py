"""Parts of a worker: the health server, pools of processes, traces."""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from tests.client.app.memory_clients import raw

from qanat.client import App, Send
from qanat.client.app.handlers import Handler
from qanat.client.app.health_server import HealthServer
from qanat.client.app.pools import Pools
from qanat.client.app.tracing import Tracing, carrier_of

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def squared(number: int) -> None:
    raise RuntimeError(f"{number * number} in {os.getpid()}")


def handler_of(app: App) -> Handler:
    return app.handlers[-1]


def test_a_health_port_says_whether_the_app_is_well_and_serves_metrics() -> None:
    async def scene() -> None:
        async with HealthServer(App("x:1"), 0, "127.0.0.1") as server:
            url = f"http://127.0.0.1:{server.port}"
            with pytest.raises(HTTPError, match="503") as caught:
                await asyncio.to_thread(urllib.request.urlopen, f"{url}/health")
            assert caught.value.read() == b"the app does not run\n"
            caught.value.close()
            with pytest.raises(HTTPError, match="404") as missing:
                await asyncio.to_thread(urllib.request.urlopen, f"{url}/other")
            missing.value.close()
            with await asyncio.to_thread(urllib.request.urlopen, f"{url}/metrics") as answer:
                assert b"# TYPE qanat_app_records_handled_total counter" in answer.read()

    asyncio.run(scene())


def test_a_request_that_is_none_gets_no_traceback() -> None:
    server = HealthServer(App("x:1"), 0)
    assert server.answer(b"\x00\xff\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert server.answer(b"GET\r\n\r\n").startswith(b"HTTP/1.1 404")


def test_a_handler_that_holds_the_interpreter_runs_in_another_process() -> None:
    app = App("x:1")
    app.stream("numbers", run_in="process")(squared)
    pools = Pools()

    async def scene() -> None:
        with pytest.raises(RuntimeError, match=r"^49 in ") as caught:
            await pools.call_of(handler_of(app))(7, None)
        assert str(os.getpid()) not in str(caught.value)

    try:
        asyncio.run(scene())
    finally:
        pools.close()


def test_only_trace_headers_of_a_sane_size_are_carried() -> None:
    headers = [("traceparent", PARENT), ("other", b"x"), ("tracestate", b"a" * 2000), ("Traceparent", None)]
    assert carrier_of(headers) == {"traceparent": PARENT.decode()}


@contextmanager
def opentelemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The part of OpenTelemetry's API that is used; the package is not installed here."""
    spans: list[dict[str, Any]] = []

    @contextmanager
    def start(name: str, **options: Any) -> Iterator[None]:
        spans.append({"name": name, **options})
        yield

    def span_of(context: dict[str, str]) -> Any:
        found = SimpleNamespace(is_valid="traceparent" in context, parent=context.get("traceparent"))
        return SimpleNamespace(get_span_context=lambda: found)

    trace = SimpleNamespace(
        get_tracer=lambda name: SimpleNamespace(start_as_current_span=start),
        SpanKind=SimpleNamespace(CONSUMER="consumer"),
        Link=lambda context: context.parent,
        get_current_span=span_of,
    )
    propagate = SimpleNamespace(extract=dict, inject=lambda carrier: carrier.update(traceparent="ours"))
    package = ModuleType("opentelemetry")
    package.trace, package.propagate = trace, propagate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    yield spans


def test_a_record_is_a_span_below_its_producers_and_what_it_sends_carries_the_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("x:1")
    app.stream("orders", group="billing")(squared)
    record = raw(7)
    record.headers = (("traceparent", PARENT),)
    with opentelemetry(monkeypatch) as spans:
        tracing = Tracing()
        with tracing.handling(handler_of(app), record):
            sent = tracing.injected(Send("t", headers=(("a", b"b"),)))
    (span,) = spans
    assert span["name"] == "orders process"
    assert span["context"] == {"traceparent": PARENT.decode()}
    assert span["attributes"]["messaging.kafka.message.offset"] == 7
    assert sent.headers == (("a", b"b"), ("traceparent", b"ours"))


def test_a_batch_is_linked_to_the_spans_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("x:1")
    app.stream("orders")(squared)
    with (
        opentelemetry(monkeypatch) as spans,
        Tracing().handling_batch(handler_of(app), [(("traceparent", PARENT),), (("other", b"x"),)]),
    ):
        assert spans[0]["links"] == [PARENT.decode()]


def test_without_opentelemetry_nothing_is_traced() -> None:
    tracing = Tracing()
    assert not tracing.is_on
    send = Send("t")
    assert tracing.injected(send) is send
