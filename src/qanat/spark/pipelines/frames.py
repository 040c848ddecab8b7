"""Sources and steps of a pipeline as data frames, each a table that later SQL can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from qanat.spark.lake.lake import Lake, LakeError
from qanat.spark.pipelines.definition import Definition, Source, Step, located, option_text
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.format_options import reading
from qanat.spark.pipelines.lake_frames import rows
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_retries import with_spark_retries
from qanat.spark.pipelines.user_functions.python_steps import python_table
from qanat.spark.pipelines.windows import in_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKEN = "_broken"
"""The field of `record` with the original text where it does not fit the schema."""


def tables(spark: SparkSession, pipeline: Definition, read: Callable[[str, Source], DataFrame]) -> dict[str, DataFrame]:
    """Every source, as `read` returns it, and every step; raises `PipelineError` for one that Spark rejects."""
    from pyspark.errors import PySparkException

    found: dict[str, DataFrame] = {}
    for name, source in pipeline.sources.items():
        where = f"pipeline {pipeline.name}, source {name}"
        try:
            found[name] = with_spark_retries(where, partial(read, name, source))
        except PySparkException as fault:
            raise PipelineError(f"{where}: {spark_reason(fault)}") from None
        except LakeError as fault:
            raise PipelineError(f"{where}: {fault}") from None
        found[name].createOrReplaceTempView(name)
    for name, step in pipeline.steps.items():
        where = f"pipeline {pipeline.name}, step {name}"
        try:
            found[name] = _made(spark, pipeline, step, found, where)
        except PySparkException as fault:
            raise PipelineError(f"{where}: {spark_reason(fault)}") from None
        found[name].createOrReplaceTempView(name)
    return found


def read_source(spark: SparkSession, source: Source, cluster: Mapping[str, str]) -> DataFrame:
    """A source: topics as a streaming data frame in bounded micro-batches, or a table to enrich from.

    `cluster` has the options of the cluster to read, unless the source names another.
    """
    if not source.is_stream:
        return read_table(spark, source)
    reader = spark.readStream.format("qanat")
    for key, value in reading(source, cluster).items():
        reader = reader.option(key, value)
    return with_record(reader.load(), source)


def read_table(spark: SparkSession, source: Source) -> DataFrame:
    """A table to enrich from, as it is when the run starts: its files are listed once."""
    if source.table is not None:
        return spark.table(source.table)
    if source.lake is not None:
        lake = Lake.open_existing(located(source.lake))
        return with_record(rows(spark, lake, lake.contents.files.values(), None, None), source)
    reader = spark.read.options(**{name: option_text(value) for name, value in source.options.items()})
    if source.schema is not None:
        reader = reader.schema(source.schema)
    if source.parquet is not None:
        return reader.parquet(located(source.parquet))
    return reader.format(source.format or "").load()


def with_record(frame: DataFrame, source: Source) -> DataFrame:
    """Records, with the column `record` where the source has a schema."""
    from pyspark.sql import functions

    if source.schema is None:
        return frame
    schema = f"{source.schema}, {BROKEN} string"
    text = functions.col("value").cast("string")
    return frame.withColumn("record", functions.from_json(text, schema, {"columnNameOfCorruptRecord": BROKEN}))


def _made(spark: SparkSession, pipeline: Definition, step: Step, found: dict[str, DataFrame], where: str) -> DataFrame:
    if step.sql is not None:
        return spark.sql(step.sql)
    if step.function is not None:
        return python_table(step, found, pipeline.folder, where)
    frame = found[step.inputs[0]]
    if step.watermark is not None:
        frame = frame.withWatermark(step.watermark.column, f"{seconds_of(step.watermark.delay)} seconds")
    if step.distinct:
        frame = (
            frame.dropDuplicatesWithinWatermark(step.distinct)
            if frame.isStreaming
            else frame.dropDuplicates(step.distinct)
        )
    return frame if step.windows is None else in_windows(frame, step.windows, where)
