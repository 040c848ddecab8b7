"""The running pipeline `metrics`: one query from the input to rollups and dead letters, one from there to the lake."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.pipelines.bundled.metrics_settings import MetricsSettings
from qanat.spark.pipelines.bundled.rollup_processor import RESULT_DDL, RollupProcessor, unpack_records
from qanat.spark.pipelines.definition import Sink, Source, located
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.frames import read_source
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.pipelines.progress import OBSERVED
from qanat.spark.pipelines.query import Query
from qanat.spark.pipelines.sinks import start
from qanat.spark.pipelines.state_store import prepare_state
from qanat.spark.pipelines.topics import make_missing
from qanat.spark.rollups.intake import PARCEL_DDL, SHARDS, intake
from qanat.spark.rollups.output import RECORD_DDL
from qanat.spark.rollups.rules import Rules
from qanat.spark.rollups.shard import Shard
from qanat.spark.worker_memory import retain_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoints/metrics"
_ROLLUP = (
    "metric string, source string, window string, start bigint, end bigint, count bigint, "
    "sum double, min double, max double, mean double, p50 double, p95 double, p99 double"
)


def metrics(spark: SparkSession, wanted: MetricsSettings, run_options: RunOptions) -> Stages:
    """Roll up until it is stopped or, with available_now, until everything is rolled up and in the lake."""
    folder = located(run_options.checkpoint or CHECKPOINT)
    _refuse_old(folder)
    prepare_state(spark, SHARDS)
    make_missing(run_options.access, {wanted.output: None, wanted.dead: None})
    rollup = Query("pipeline metrics, rollup", partial(_rollup, spark, wanted, run_options, f"{folder}/windows"))
    lake = partial(
        Query, "pipeline metrics, lake", partial(_lake, spark, wanted, run_options, f"{folder}/lake-of-windows")
    )
    if not wanted.lake:
        yield [rollup]
    elif run_options.is_available_now:
        yield [rollup]
        yield [lake()]
    else:
        try:
            queries = [rollup, lake()]
        except PipelineError:
            rollup.stop()
            raise
        yield queries


def _refuse_old(folder: str) -> None:
    """Refuse the checkpoint of an earlier version, which counted in three queries."""
    if "://" not in folder and Path(folder, "rollup", "offsets").exists():
        raise PipelineError(
            f"checkpoint {folder} was written by a Qanat that kept other state: to continue where it ended, give "
            "--checkpoint another folder and --start group; windows that were open then are incomplete"
        )


def _rollup(spark: SparkSession, wanted: MetricsSettings, run_options: RunOptions, checkpoint: str) -> StreamingQuery:
    source = Source(
        topics=list(wanted.input.names),
        start=wanted.start,
        group=wanted.group or None,
        headers=True,
        options={**wanted.limits.options()},
    )
    records = read_source(spark, source, run_options.cluster)
    parcels = records.mapInArrow(partial(_taken_in, rules=wanted.rules, dead=wanted.dead), PARCEL_DDL)
    processor = RollupProcessor(Shard(wanted.delay_ms, wanted.error), wanted.output)
    results = parcels.groupBy("shard").transformWithStateInPandas(processor, RESULT_DDL, "append", "none")
    sink = Sink(from_="", topic="", headers=True, every=f"{wanted.every_s} seconds")
    return start(
        _observed(results).mapInArrow(unpack_records, RECORD_DDL),
        sink,
        "metrics-rollup",
        checkpoint,
        run_options.cluster,
        is_available_now=run_options.is_available_now,
    )


def _observed(results: DataFrame) -> DataFrame:
    """The results, whose reports appear in the query's progress."""
    from pyspark.sql import functions

    sums = [functions.sum(name).alias(name) for name in ("duplicates", "late")]
    return results.observe(OBSERVED, functions.min("over_ms").alias("over_ms"), *sums).select("records")


def _taken_in(batches: Iterator[pa.RecordBatch], rules: Rules, dead: str) -> Iterator[pa.RecordBatch]:
    retain_memory()
    return intake(batches, rules, dead)


def _lake(spark: SparkSession, wanted: MetricsSettings, run_options: RunOptions, checkpoint: str) -> StreamingQuery:
    source = Source(topic=wanted.output, schema=_ROLLUP, options={**wanted.limits.options()})
    rows = (
        read_source(spark, source, run_options.cluster)
        .where("record.metric is not null")
        .selectExpr(
            "record.metric",
            "record.source",
            "record.window",
            "timestamp_millis(record.start) as start",
            "timestamp_millis(record.end) as end",
            *(f"record.{name}" for name in ("count", "sum", "min", "max", "mean", "p50", "p95", "p99")),
            "date_format(timestamp_millis(record.start), 'yyyy-MM-dd') as date",
            "date_format(timestamp_millis(record.start), 'HH') as hour",
        )
    )
    sink = Sink(
        from_="",
        parquet=wanted.lake,
        partition_by=["date", "hour"],
        files=1,
        every=f"{wanted.lake_every_s} seconds",
    )
    return start(
        rows, sink, "metrics-lake", checkpoint, run_options.cluster, is_available_now=run_options.is_available_now
    )
