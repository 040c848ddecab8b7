"""Event-time windows of several sizes in one pass.

A query for each size would read, parse and de-duplicate everything again, and hold as many copies of the state. Here
each row is put into its window of every size, and one aggregation computes them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.spark.pipelines.definition import Windows
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WATERMARK = "spark.watermarkDelayMs"
"""Spark's mark of the column that its watermark follows; `window()` passes it on, and so does this."""
_PLACE, _WINDOW = "_place", "_window"


def in_windows(frame: DataFrame, windows: Windows, where: str) -> DataFrame:
    """Columns `by`, `size` (its label), `start`, `end`, and the aggregates; a stream emits a window when it is over."""
    from pyspark.sql import functions

    if windows.column not in frame.columns:
        raise PipelineError(f"{where}: there is no column {windows.column}; there are {', '.join(frame.columns)}")
    delay = frame.schema[windows.column].metadata.get(_WATERMARK)
    if delay is None and frame.isStreaming:
        raise PipelineError(f"{where}: {windows.column} has no watermark: without one, windows would never be over")
    places = [_place(windows.column, label, seconds_of(size)) for label, size in windows.sizes.items()]
    placed = frame.select("*", functions.explode(functions.array(*places)).alias(_PLACE)).select(
        *frame.columns,
        functions.col(f"{_PLACE}.size").alias("size"),
        functions.col(f"{_PLACE}.window").alias(_WINDOW, metadata={} if delay is None else {_WATERMARK: delay}),
    )
    computed = [functions.expr(text).alias(name) for name, text in windows.compute.items()]
    return (
        placed.groupBy(*windows.by, "size", _WINDOW)
        .agg(*computed)
        .select(*windows.by, "size", f"{_WINDOW}.start", f"{_WINDOW}.end", *windows.compute)
    )


def _place(column: str, label: str, seconds: int) -> Column:
    from pyspark.sql import functions

    number = f"floor(unix_micros(`{column}`) / {seconds * 1_000_000})"
    start, end = f"timestamp_seconds({number} * {seconds})", f"timestamp_seconds(({number} + 1) * {seconds})"
    return functions.expr(f"named_struct('size', '{label}', 'window', named_struct('start', {start}, 'end', {end}))")
