"""Micro-batches that this process plans, for sessions of Spark Connect.

There, Spark runs a function of micro-batches in a process of the server, and archives and mirrors hold connections and
a position here. So this process does what Spark's engine would do with the same reader: it asks for the end of the next
micro-batch, reads it as a batch, and passes it on. Positions are at the target, so no checkpoint is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.offsets import from_json, lag, ranges
from qanat.spark.options.options import source_options
from qanat.spark.pipelines.batch_job import BatchJob, JobProgress
from qanat.spark.reads.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_EVERY_S = 0.2
_OF_STREAMS = (
    "startingoffsets",
    "maxbytespertrigger",
    "targetbatchtime",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "kafka.group.id",
)
_OF_TOPICS = ("subscribe", "subscribepattern")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return getattr(spark, "sparkContext", None) is None


def client_query(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    every_s: float,
    take: Callable[[DataFrame], int],
    *,
    is_available_now: bool,
) -> BatchJob:
    """A job that passes micro-batches to `take`, one after the other."""

    def act(progress: JobProgress) -> None:
        # It only plans here, so that the schema does not matter.
        reader = StreamReader(source_options(options, is_stream=True), pa.schema([]))
        try:
            if is_available_now:
                reader.prepareForTriggerAvailableNow()
            start = reader.initialOffset()
            while not progress.must_end:
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                count = lag(from_json(start, name), from_json(end, name))
                if count:
                    written = take(_frame(spark, options, start, end))
                    reader.commit(end)
                    newest = reader.reportLatestOffset() or end
                    progress.done(count, lag(from_json(end, name), from_json(newest, name)), written=written)
                elif is_available_now:
                    return
                start = end
                if not count:
                    _wait(every_s, progress)
        finally:
            reader.stop()

    return BatchJob(name, act)


def _frame(spark: SparkSession, options: Mapping[str, str], start: dict[str, Any], end: dict[str, Any]) -> DataFrame:
    """The records between two positions."""
    wanted = ranges(from_json(start, "start"), from_json(end, "end"))
    bounds: dict[str, dict[str, dict[str, int]]] = {"startingOffsets": {}, "endingOffsets": {}}
    assigned: dict[str, list[int]] = {}
    for one in wanted:
        assigned.setdefault(one.at.topic, []).append(one.at.partition)
        bounds["startingOffsets"].setdefault(one.at.topic, {})[str(one.at.partition)] = one.start
        bounds["endingOffsets"].setdefault(one.at.topic, {})[str(one.at.partition)] = one.end
    reader = spark.read.format("qanat").option("includeHeaders", "true")
    for key, value in options.items():
        if key.lower() not in (*_OF_STREAMS, *_OF_TOPICS):
            reader = reader.option(key, value)
    for key, offsets in bounds.items():
        reader = reader.option(key, msgspec.json.encode(offsets).decode())
    return reader.option("assign", msgspec.json.encode(assigned).decode()).load()


def _wait(seconds: float, progress: JobProgress) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not progress.must_end:
        time.sleep(_LOOK_EVERY_S)
