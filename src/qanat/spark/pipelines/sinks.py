"""Sinks: streaming queries that write the rows of a table to a topic, a Parquet lake or the terminal.

A topic is written in transactions, a lake through Spark's log of files (`_spark_metadata`): in both, a micro-batch that
is repeated after a crash changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qanat.spark.pipelines.definition import Sink, option_text
from qanat.spark.pipelines.durations import seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def start(
    frame: DataFrame, sink: Sink, name: str, checkpoint: str, cluster: Mapping[str, str], *, is_available_now: bool
) -> StreamingQuery:
    """A running query."""
    if sink.files is not None:
        # Not coalesce: it would run the stages before it, state included, in as few tasks.
        frame = frame.repartition(sink.files)
    writer = frame.writeStream.queryName(name).outputMode("append").option("checkpointLocation", checkpoint)
    if is_available_now:
        writer = writer.trigger(availableNow=True)
    elif sink.every is not None:
        writer = writer.trigger(processingTime=f"{seconds_of(sink.every)} seconds")
    for key, value in _options(sink, cluster).items():
        writer = writer.option(key, value)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return writer.format({"topic": "qanat"}.get(sink.kind, sink.kind)).start()


def _options(sink: Sink, cluster: Mapping[str, str]) -> dict[str, str]:
    match sink.kind:
        case "topic":
            assert sink.topic is not None
            own = {
                **(cluster if sink.bootstrap is None else {"kafka.bootstrap.servers": sink.bootstrap}),
                **({"topic": sink.topic} if sink.topic else {}),
                "delivery": sink.delivery,
                "includeHeaders": option_text(sink.headers),
                "kafka.compression.type": sink.compression,
            }
        case "parquet":
            assert sink.parquet is not None
            own = {"path": located(sink.parquet)}
        case _:
            own = {"truncate": "false"}
    return {**own, **{name: option_text(value) for name, value in sink.options.items()}}


def located(folder: str) -> str:
    """An address unchanged, a path made absolute: Spark's processes may have another working directory."""
    return folder if "://" in folder or folder.startswith("file:") else str(Path(folder).absolute())
