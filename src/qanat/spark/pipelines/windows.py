"""Event-time windows of several sizes in one pass, tumbling or sliding; and sessions.

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
    """Columns `by`, `size` (its label; not of sessions), `start`, `end`, and the aggregates.

    A stream emits a window when it is over.
    """
    from pyspark.sql import functions

    if windows.column not in frame.columns:
        raise PipelineError(f"{where}: there is no column {windows.column}; there are {', '.join(frame.columns)}")
    delay = frame.schema[windows.column].metadata.get(_WATERMARK)
    if delay is None and frame.isStreaming:
        raise PipelineError(f"{where}: {windows.column} has no watermark: without one, windows would never be over")
    computed = [functions.expr(text).alias(name) for name, text in windows.compute.items()]
    if windows.gap is not None:
        session = functions.session_window(windows.column, f"{seconds_of(windows.gap)} seconds").alias(_WINDOW)
        grouped = frame.groupBy(*windows.by, session).agg(*computed)
        return grouped.select(*windows.by, f"{_WINDOW}.start", f"{_WINDOW}.end", *windows.compute)
    placed = frame.select("*", functions.explode(_places(windows)).alias(_PLACE))
    if windows.slide is not None:
        placed = placed.where(f"{_PLACE}.window.end > `{windows.column}`")
    placed = placed.select(
        *frame.columns,
        functions.col(f"{_PLACE}.size").alias("size"),
        functions.col(f"{_PLACE}.window").alias(_WINDOW, metadata={} if delay is None else {_WATERMARK: delay}),
    )
    return (
        placed.groupBy(*windows.by, "size", _WINDOW)
        .agg(*computed)
        .select(*windows.by, "size", f"{_WINDOW}.start", f"{_WINDOW}.end", *windows.compute)
    )


def _places(windows: Windows) -> Column:
    """The windows of a row, of every size, as an array."""
    from pyspark.sql import functions

    sizes = {label: seconds_of(size) for label, size in windows.sizes.items()}
    if windows.slide is None:
        return functions.array(*(_place(windows.column, label, size) for label, size in sizes.items()))
    slide = seconds_of(windows.slide)
    return functions.flatten(
        functions.array(*(_sliding(windows.column, label, size, slide) for label, size in sizes.items()))
    )


def _sliding(column: str, label: str, size: int, slide: int) -> Column:
    """The sliding windows of a row; where the slide does not divide the size, also one that ended before it."""
    from pyspark.sql import functions

    start = f"(floor(unix_micros(`{column}`) / {slide * 1_000_000}) - before) * {slide}"
    window = f"named_struct('start', timestamp_seconds({start}), 'end', timestamp_seconds({start} + {size}))"
    place = f"named_struct('size', '{label}', 'window', {window})"
    return functions.expr(f"transform(sequence(0, {-(-size // slide) - 1}), before -> {place})")


def _place(column: str, label: str, seconds: int) -> Column:
    from pyspark.sql import functions

    number = f"floor(unix_micros(`{column}`) / {seconds * 1_000_000})"
    start, end = f"timestamp_seconds({number} * {seconds})", f"timestamp_seconds(({number} + 1) * {seconds})"
    return functions.expr(f"named_struct('size', '{label}', 'window', named_struct('start', {start}, 'end', {end}))")
