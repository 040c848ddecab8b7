"""Declarations of handlers: wrong ones are refused at import, with what was expected."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from tests.client.app.memory_clients import raw

from qanat.client.app.app import App, AppError
from qanat.client.app.context import Context, HandlerCancelledError
from qanat.client.app.handlers import StreamHandler
from qanat.client.app.retry import Retry, RetryPolicy
from qanat.client.app.sending import Send
from qanat.client.errors import SerializationError, SignatureError


@dataclass
class Order:
    id: int


def no_parameter() -> None: ...
def three(order: Order, ctx: Context, more: int) -> None: ...
def untyped(order) -> None: ...  # type: ignore[no-untyped-def]
def second_is_no_context(order: Order, other: int) -> None: ...
def only_keyword(*, order: Order) -> None: ...
def many(*orders: Order) -> None: ...
def unknown(order: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def returns_a_number(order: Order) -> int:
    return order.id


async def generates(order: Order) -> AsyncIterator[Send]:
    yield Send("t")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_parameter, "it has no parameter"),
        (three, "it has the parameters order, ctx, more"),
        (untyped, "the parameter order has no type"),
        (second_is_no_context, "the parameter other is not a Context"),
        (only_keyword, "it has the parameters order"),
        (many, "it has the parameters orders"),
        (unknown, "the type Missing is not known"),
        (returns_a_number, "it returns int"),
        (generates, "it is a generator"),
        (functools.partial(second_is_no_context, Order(1)), "it is no function"),
    ],
)
def test_a_wrong_signature_is_refused_at_import_with_the_expected_one(function: Any, reason: str) -> None:
    with pytest.raises(
        SignatureError, match=r"@app.stream cannot use .*" + reason + ".*expected `async def "
    ) as caught:
        App("x:1").stream("orders")(function)
    assert "(payload: Type, ctx: Context) -> None`" in str(caught.value)


def test_a_queue_returns_nothing_and_a_batch_is_a_record_batch() -> None:
    app = App("x:1")

    def sends(order: Order) -> Send:
        return Send("t")

    def takes_an_order(order: Order) -> None: ...

    def load(batch: pa.RecordBatch) -> None: ...

    with pytest.raises(SignatureError, match="it returns Send; expected `def sends"):
        app.queue("jobs")(sends)
    with pytest.raises(SignatureError, match="order is not a RecordBatch; expected `def takes_an_order"):
        app.table_batch("events")(takes_an_order)
    app.table_batch("events")(load)


def test_types_that_are_local_to_a_function_are_known() -> None:
    @dataclass
    class Local:
        id: int

    app = App("x:1")

    @app.stream("orders")
    async def bill(order: Local) -> list[Send] | None: ...

    handler = app.handlers[0]
    assert isinstance(handler, StreamHandler)
    assert handler.deserializer.decode("orders", b'{"id":1}') == Local(1)


def test_a_decorated_function_stays_itself() -> None:
    async def bill(order: Order) -> None: ...

    assert App("x:1").stream("orders")(bill) is bill


def test_a_type_that_no_serializer_reads_is_refused_at_import() -> None:
    class Opaque:
        def __init__(self, x: complex) -> None: ...

    async def bill(order: Opaque) -> None: ...

    # msgspec takes any class as a custom type, and refuses it when it is read.
    app = App("x:1")
    app.stream("orders")(bill)
    handler = app.handlers[0]
    assert isinstance(handler, StreamHandler)
    with pytest.raises(SerializationError, match="Opaque"):
        handler.deserializer.decode("orders", b"{}")


def test_wrong_options_are_refused_in_one_sentence() -> None:
    app = App("x:1")

    async def bill(order: Order) -> None: ...

    def load(batch: pa.RecordBatch) -> None: ...

    def failed(fault: Exception) -> None: ...

    with pytest.raises(AppError, match="names no topic"):
        app.stream()(bill)
    with pytest.raises(AppError, match="concurrency of bill is 0"):
        app.stream("orders", concurrency=0)(bill)
    with pytest.raises(ValueError, match="no duration"):
        app.stream("orders", timeout="soon")(bill)
    with pytest.raises(AppError, match="retry of bill is 'often', but must be a Retry"):
        app.stream("orders", retry=cast(Retry, "often"))(bill)
    with pytest.raises(AppError, match="order of bill is 'keys', but must be one of key, partition, none"):
        app.stream("orders", order=cast(Any, "keys"))(bill)
    with pytest.raises(AppError, match="give_up of bill is 'never', but must be one of stop, skip, pause"):
        app.stream("orders", give_up=cast(Any, "never"))(bill)
    with pytest.raises(AppError, match="run_in of bill is 'cloud', but must be one of thread, process"):
        app.queue("orders", run_in=cast(Any, "cloud"))(bill)
    with pytest.raises(AppError, match="lock of bill is 'x', but must be one of auto, manual"):
        app.queue("orders", lock=cast(Any, "x"))(bill)
    with pytest.raises(AppError, match="rows of load is 0, but must be at least 1"):
        app.table_batch("orders", rows=0)(load)
    with pytest.raises(SignatureError, match="cannot run in a process"):
        app.stream("orders", run_in="process")(bill)
    with pytest.raises(AppError, match="bill pauses on errors and has dead_letter='dlq': leave out one of them"):
        app.stream("orders", retry="PAUSE_ON_ERROR", dead_letter="dlq")(bill)
    with pytest.raises(AppError, match="bill has retry=SKIP_ON_ERROR and give_up='stop': leave out give_up"):
        app.stream("orders", retry=RetryPolicy.SKIP_ON_ERROR, give_up="stop")(bill)
    with pytest.raises(SignatureError, match=r"write def failed\(fault: Exception, ctx: Context\)"):
        app.on_error(cast(Any, failed))
    with pytest.raises(SignatureError, match="failed handles errors, but does not take two arguments"):
        app.stream("orders", on_error=cast(Any, failed))(bill)
    app.on_error(lambda fault, ctx: None)
    with pytest.raises(AppError, match=r"is a second @app\.on_error"):
        app.on_error(lambda fault, ctx: None)
    with pytest.raises(AppError, match="there is no handler 'bil'; there are"):
        app.resume("bil")
    app.stream("orders")(bill)
    with pytest.raises(AppError, match="two handlers read orders in the group bill"):
        app.stream("orders")(bill)


def test_the_named_policies_say_how_often_and_what_then() -> None:
    app = App("x:1")

    async def bill(order: Order) -> None: ...

    app.stream("a", retry="EXPONENTIAL_THEN_FIXED")(bill)
    app.stream("b", retry="SKIP_ON_ERROR")(bill)
    app.stream("c", retry=RetryPolicy.PAUSE_ON_ERROR)(bill)
    app.queue("d", retry="EXPONENTIAL_THEN_FIXED")(bill)
    app.queue("e", retry="PAUSE_ON_ERROR")(bill)
    app.stream("f")(bill)
    app.queue("g")(bill)
    found = [(one.retry.attempts, one.give_up) for one in app.handlers]
    assert found == [
        (None, "stop"), (1, "skip"), (1, "pause"), (None, "skip"), (1, "pause"), (None, "stop"), (5, "skip"),
    ]  # fmt: skip
    pauses = [app.handlers[0].retry.pause_s(attempt, OSError(), 1.0) for attempt in (1, 2, 3, 6, 7, 8, 50)]
    assert pauses == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0, 60.0]


def test_a_context_tells_of_its_record_and_whether_to_stop() -> None:
    context = Context("bill", raw(7, key=b"k"), 2, 5)
    assert (context.key, context.attempt, context.fencing_token, context.headers) == (b"k", 2, 5, ())
    assert repr(context) == "<Context bill orders-0 at offset 7 attempt 2>"
    context.check()
    context.is_cancelled = True
    with pytest.raises(HandlerCancelledError, match="bill: orders-0 at offset 7 no longer belongs"):
        context.check()


def test_the_last_header_of_a_name_counts() -> None:
    record = raw(0)
    record.headers = (("a", b"1"), ("a", b"2"))
    context = Context("bill", record, 1, 0)
    assert context.header("a") == b"2"
    assert context.header("b") is None
