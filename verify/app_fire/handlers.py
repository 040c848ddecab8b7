"""The app under fire: `qanat run verify.app_fire.handlers:app`, with APP_FIRE_SERVERS and APP_FIRE_FOLDER set.

What a handler does with a record is decided by the record's number, the same in every worker.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from qanat.client import App, Context, Retry, Send
from verify.app_fire.journal import BEGIN, CANCELLED, END, FAILED, Journal

ATTEMPTS = 4
LOCK_S = 3.0
"""How long brokers lock a record of the queue."""
_JOB_S = 2.5 * LOCK_S
_SLOW_S = 0.5
_QUICK_S = 0.002
_RETRY = Retry(ATTEMPTS, backoff="50ms..400ms")

app = App(os.environ.get("APP_FIRE_SERVERS", "localhost:9092"), grace="20s", session_timeout_ms=6000)
_failed_batches: set[tuple[int, int]] = set()
journal = Journal(Path(os.environ.get("APP_FIRE_FOLDER", ".")))


class Order(msgspec.Struct):
    """A record: its number, and the customer who is its key."""

    number: int
    customer: str


class BrokenError(Exception):
    """What handlers fail with."""


def is_broken(number: int) -> bool:
    """Whether a record fails for good, and must become a dead letter."""
    return number % 101 == 7


def _is_flaky(number: int) -> bool:
    return number % 23 == 5


def is_slow(number: int) -> bool:
    return number % 37 == 3


def is_long_job(number: int) -> bool:
    """Whether a job outlasts its lock."""
    return number % 29 == 4


def _fail(name: str, order: Order, ctx: Context) -> None:
    if is_broken(order.number) or (_is_flaky(order.number) and ctx.attempt <= 2):
        _note(FAILED, name, order, ctx)
        raise BrokenError(f"number {order.number}, attempt {ctx.attempt}")


def _note(what: str, name: str, order: Order, ctx: Context) -> None:
    journal.write(what, name, ctx.record.partition, ctx.record.offset, order.number, ctx.attempt)


async def _work(name: str, order: Order, ctx: Context, seconds: float) -> None:
    _note(BEGIN, name, order, ctx)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        _note(CANCELLED, name, order, ctx)
        raise
    _fail(name, order, ctx)
    _note(END, name, order, ctx)


def _block(name: str, order: Order, ctx: Context) -> None:
    _note(BEGIN, name, order, ctx)
    time.sleep(_SLOW_S if is_slow(order.number) else _QUICK_S)
    _fail(name, order, ctx)
    _note(END, name, order, ctx)


@app.stream("orders", group="once", concurrency=16, exactly_once=True, retry=_RETRY, dead_letter="once.dead")
async def once(order: Order, ctx: Context) -> Send:
    """Copies orders exactly once."""
    await _work("once", order, ctx, _SLOW_S if is_slow(order.number) else _QUICK_S)
    return Send("copies", order, key=order.customer)


@app.stream("copies", group="chain", concurrency=16, exactly_once=True)
async def chain(order: Order, ctx: Context) -> Send:
    """Copies the copies exactly once: what the first handler aborted must not be seen."""
    _note(BEGIN, "chain", order, ctx)
    _note(END, "chain", order, ctx)
    return Send("finals", order, key=order.customer)


@app.stream("orders", group="least", concurrency=16, retry=_RETRY, dead_letter="least.dead")
async def least(order: Order, ctx: Context) -> None:
    """At least once, with the newer protocol of groups."""
    await _work("least", order, ctx, _SLOW_S if is_slow(order.number) else _QUICK_S)


@app.stream(
    "orders", group="classic", concurrency=4, retry=_RETRY, dead_letter="classic.dead", group_protocol="classic"
)
def classic(order: Order, ctx: Context) -> None:
    """At least once, with the classic protocol, in threads."""
    _block("classic", order, ctx)


@app.stream("orders", group="process", concurrency=3, run_in="process", retry=_RETRY, dead_letter="process.dead")
def process(order: Order, ctx: Context) -> None:
    """At least once, in processes of their own, which must end with their worker."""
    _block("process", order, ctx)


@app.table_batch("orders", group="table", every="300ms", retry=_RETRY)
def table(batch: pa.RecordBatch) -> None:
    """Whole batches at least once; some fail once in each worker."""
    rows = batch.select(["partition", "offset", "value"]).to_pylist()
    first = rows[0]["partition"], rows[0]["offset"]
    time.sleep(_SLOW_S / 5)
    if first not in _failed_batches and rows[0]["offset"] % 3 == 0:
        _failed_batches.add(first)
        raise BrokenError(f"the batch of {first}")
    for row in rows:
        number = msgspec.json.decode(row["value"], type=Order).number
        for what in (BEGIN, END):
            journal.write(what, "table", row["partition"], row["offset"], number, 1)


@app.queue("jobs", group="jobs", concurrency=8, retry=_RETRY, dead_letter="jobs.dead")
async def jobs(order: Order, ctx: Context) -> None:
    """A queue whose longest jobs outlast their lock."""
    await _work("jobs", order, ctx, _JOB_S if is_long_job(order.number) else _SLOW_S)
