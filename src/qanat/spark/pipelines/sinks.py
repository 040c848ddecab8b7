"""Sinks: streaming queries that write the rows of a table to a topic, a lake, any format of Spark, or a function.

A topic is written in transactions, a lake through Spark's log of files (`_spark_metadata`): in both, a micro-batch that
is repeated after a crash changes nothing. Spark lets sources in Python only append: topics that get updates are written
batch by batch, with the query's id and the batch's number.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from qanat.spark.pipelines.definition import Sink, located, option_text
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.format_options import writing
from qanat.spark.pipelines.user_functions.python_sinks import batch_function
from qanat.spark.pipelines.value_output import outgoing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_STARTED_WITHIN_S = 60.0


def start(
    frame: DataFrame,
    sink: Sink,
    name: str,
    checkpoint: str,
    cluster: Mapping[str, str],
    *,
    is_available_now: bool,
    where: str = "",
    folder: str | None = None,
) -> StreamingQuery:
    """A running query; `where` names the sink in errors, `folder` has modules of its function."""
    frame = outgoing(frame, sink, where)
    if sink.files is not None:
        # Not coalesce: it would run the stages before it, state included, in as few tasks.
        frame = frame.repartition(sink.files)
    writer = frame.writeStream.queryName(name).outputMode(sink.mode).option("checkpointLocation", checkpoint)
    if is_available_now:
        writer = writer.trigger(availableNow=True)
    elif sink.every is not None:
        writer = writer.trigger(processingTime=f"{seconds_of(sink.every)} seconds")
    options = _options(sink, cluster)
    if sink.kind == "python":
        return writer.foreachBatch(batch_function(sink, folder, where)).start()
    if sink.is_by_batch:
        return _start_by_batch(writer, sink, options, f"{checkpoint}/qanat-staging")
    for key, value in options.items():
        writer = writer.option(key, value)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return _start_stream(writer, _format(sink), where)


def _start_stream(writer: DataStreamWriter, form: str, where: str) -> StreamingQuery:
    from pyspark.errors import PySparkException

    try:
        return writer.format(form).start()
    except PySparkException as fault:
        if "does not support streamed writing" not in str(fault):
            raise
        raise PipelineError(f"{where}: Spark does not write {form} as a stream; add `write: batch`") from None


def _start_by_batch(writer: DataStreamWriter, sink: Sink, options: Mapping[str, str], staging: str) -> StreamingQuery:
    """A query whose micro-batches are batch writes; those of a topic are known by the query's id and their number."""
    query_id: Future[str] = Future()

    def write(batch: DataFrame, number: int) -> None:
        numbered = dict(options)
        if sink.kind == "topic" and sink.delivery == "exactly-once":
            known_by = query_id.result(_STARTED_WITHIN_S)
            numbered |= {"stagingLocation": staging, "txnAppId": known_by, "txnVersion": str(number)}
        target = batch.write.format(_format(sink)).options(**numbered)
        if sink.partition_by:
            target = target.partitionBy(*sink.partition_by)
        target.mode("overwrite" if sink.mode == "complete" and sink.kind != "topic" else "append").save()

    query = writer.foreachBatch(write).start()
    query_id.set_result(str(query.id))
    return query


def _format(sink: Sink) -> str:
    return sink.format or {"topic": "qanat"}.get(sink.kind, sink.kind)


def _options(sink: Sink, cluster: Mapping[str, str]) -> dict[str, str]:
    own: dict[str, str] = {}
    match sink.kind:
        case "topic":
            return writing(sink, cluster)
        case "parquet":
            assert sink.parquet is not None
            own = {"path": located(sink.parquet)}
        case "console":
            own = {"truncate": "false"}
    return {**own, **{name: option_text(value) for name, value in sink.options.items()}}
