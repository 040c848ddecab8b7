"""Batches to columns and back, compiled and interpreted, beside a bare copy of the same bytes."""

from __future__ import annotations

import time

from qanat.app.bench.figures import Limit, Required, Row, row, taking_turns
from qanat.app.bench.log_figures.batches import keyed_batches
from qanat.app.bench.log_figures.child_process import ask
from qanat.app.bench.log_figures.plan import Bench

_RECORDS_PER_SECOND = 5_000_000
_BATCHES_AT_ONCE = 10
"""10,000 rows in one call, as in Spark (arrow.maxRecordsPerBatch); one call for all touches fresh pages only, and must
be as fast."""
_INTERPRETED_SHARE = 25
"""The interpreted form is measured on so many times fewer records: it is slow."""


def measure(bench: Bench) -> list[Row]:
    records = bench.plan.column_records
    batches = keyed_batches(records)
    decoded, at_once, encoded, copied = taking_turns(
        bench.rounds,
        lambda: records / decode_seconds(batches, _BATCHES_AT_ONCE),
        lambda: records / decode_seconds(batches, len(batches)),
        lambda: records / encode_seconds(batches),
        lambda: records / _copy_seconds(batches),
    )
    limit = Limit(copied, "bare copy of the bytes")
    form = column_form()
    if form == "interpreted":
        bench.notes.append("the per-record core runs interpreted here: the requirement is for the compiled one")
    required = Required("ours", ">=", _RECORDS_PER_SECOND)
    rows = [
        row("columns", f"batches to columns, 10,000 rows a call, {form}", "records/s", decoded, limit, required),
        row(
            "columns",
            f"batches to columns, {records:,} rows in one call, {form}",
            "records/s",
            at_once,
            limit,
            required,
        ),
        row("columns", f"columns to batches, {form}", "records/s", encoded, limit),
    ]
    if form == "compiled":
        fewer = str(max(1, records // _INTERPRETED_SHARE))
        answers = [ask("columns", fewer) for _ in range(bench.rounds)]
        rows += [
            row("columns", f"{what}, interpreted", "records/s", [answer[key] for answer in answers])
            for what, key in (("batches to columns", "decoded"), ("columns to batches", "encoded"))
        ]
    return rows


def column_form() -> str:
    """How the core was loaded in this process: `compiled` or `interpreted`."""
    from qanat.wire import column_reader

    return "interpreted" if str(column_reader.__file__).endswith(".py") else "compiled"


def decode_seconds(batches: list[bytes], at_once: int) -> float:
    from qanat.wire.columns import decode_columns

    start = time.perf_counter()
    for first in range(0, len(batches), at_once):
        decode_columns(batches[first : first + at_once], limit_bytes=2**31)
    return time.perf_counter() - start


def encode_seconds(batches: list[bytes]) -> float:
    from qanat.wire.columns import decode_columns, encode_columns

    columns = decode_columns(batches, limit_bytes=2**31)
    start = time.perf_counter()
    rows = sum(count for _, count in encode_columns(columns))
    seconds = time.perf_counter() - start
    assert rows == len(columns), "every row came back"
    return seconds


def _copy_seconds(batches: list[bytes]) -> float:
    start = time.perf_counter()
    target = bytearray(sum(map(len, batches)))
    position = 0
    for batch in batches:
        target[position : position + len(batch)] = batch
        position += len(batch)
    return time.perf_counter() - start
