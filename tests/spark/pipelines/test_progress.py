"""Spark's progress reports, added up."""

from __future__ import annotations

from typing import Any

from qanat.spark.pipelines.progress import Tally, is_batch


def report(rows: int, milliseconds: int, **more: Any) -> dict[str, Any]:
    return {
        "batchId": 0,
        "numInputRows": rows,
        "durationMs": {"addBatch": milliseconds, "triggerExecution": milliseconds},
        **more,
    }


def test_rows_late_ones_and_duplicates_add_up_and_state_is_the_last() -> None:
    first = report(
        1000,
        500,
        eventTime={"watermark": "2026-01-01T00:00:00.000Z"},
        stateOperators=[
            {"numRowsTotal": 7, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 3, "memoryUsedBytes": 50, "customMetrics": {"numDroppedDuplicateRows": 4}},
        ],
        sink={"numOutputRows": 12},
    )
    second = report(0, 100, stateOperators=[{"numRowsTotal": 2, "memoryUsedBytes": 10}], sink={"numOutputRows": -1})
    tally = Tally("q").plus(first).plus(second)

    assert (tally.batches, tally.rows, tally.written, tally.late, tally.duplicates) == (2, 1000, 12, 1, 4)
    assert (tally.state_rows, tally.state_bytes, tally.watermark) == (2, 10, "2026-01-01T00:00:00.000Z")
    assert tally.rows_per_second == 2000


def test_lag_is_what_is_there_and_not_read() -> None:
    source = {"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 8, "1": 7}}}

    assert Tally("q").plus(report(1, 1, sources=[source])).lag == 3
    assert Tally("q").plus(report(1, 1, sources=[{"endOffset": None}])).lag is None


def test_a_report_that_nothing_happened_is_no_batch() -> None:
    assert is_batch(report(0, 1))
    assert not is_batch({"durationMs": {"latestOffset": 3, "triggerExecution": 3}})
