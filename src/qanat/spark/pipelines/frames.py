"""Sources and steps of a pipeline as streaming data frames, each a table that later SQL can name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from qanat.spark.pipelines.definition import Definition, Option, Source, Step, option_text
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.spark_retries import is_too_slow, patiently
from qanat.spark.pipelines.windows import in_windows
from qanat.spark.session import reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKEN = "_broken"
"""The field of `record` that holds the text where it is not what the schema says."""


_OWN = re.compile(r"\bqanat(?:\.\w+)+Error: (.+)")

_FROM_JAVA = "An error occurred while calling"
"""What Py4J tells before an exception that is not Spark's own, such as one of the file system."""


def tables(spark: SparkSession, pipeline: Definition, cluster: Mapping[str, str]) -> dict[str, DataFrame]:
    """Every source and step by its name; raises `PipelineError` where Spark cannot make sense of one.

    `cluster` is where topics are read, as options, unless a source names another.
    """
    from pyspark.errors import PySparkException

    found: dict[str, DataFrame] = {}
    for name, source in pipeline.sources.items():
        where = f"pipeline {pipeline.name}, source {name}"
        try:
            found[name] = patiently(where, partial(_read, spark, source, cluster))
        except PySparkException as fault:
            raise PipelineError(f"{where}: {told(fault)}") from None
        found[name].createOrReplaceTempView(name)
    for name, step in pipeline.steps.items():
        where = f"pipeline {pipeline.name}, step {name}"
        try:
            found[name] = _made(spark, step, found, where)
        except PySparkException as fault:
            raise PipelineError(f"{where}: {told(fault)}") from None
        found[name].createOrReplaceTempView(name)
    return found


def told(fault: Exception) -> str:
    """What Spark says, without its plans and stack traces.

    >>> told(Exception("An error occurred while calling o1.start.\\n: java.io.IOException: no /x\\n\\tat a"))
    'no /x'
    """
    text = str(fault)
    own = _OWN.findall(text)
    if own:
        return str(own[-1]).split(" SQLSTATE:")[0]
    if text.startswith(_FROM_JAVA):
        return reason_of(text)
    if is_too_slow(fault):
        return (
            "Spark gives a Python process ten seconds to start, and this machine was too busy for that; run it again, "
            "it goes on where it was"
        )
    return text.strip().split("\n", 1)[0].split(" SQLSTATE:")[0]


def _read(spark: SparkSession, source: Source, cluster: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions

    options: dict[str, Option | None] = {
        **(cluster if source.bootstrap is None else {"kafka.bootstrap.servers": source.bootstrap}),
        "subscribe": source.topic or ",".join(source.topics) or None,
        "subscribePattern": source.pattern,
        "startingOffsets": source.start,
        "maxOffsetsPerTrigger": source.limit,
        "maxBytesPerTrigger": source.limit_bytes,
        "kafka.group.id": source.group,
        "includeHeaders": source.headers,
        **source.options,
    }
    reader = spark.readStream.format("qanat")
    for key, value in options.items():
        if value is not None:
            reader = reader.option(key, option_text(value))
    frame = reader.load()
    if source.schema is None:
        return frame
    schema = f"{source.schema}, {BROKEN} string"
    text = functions.col("value").cast("string")
    return frame.withColumn("record", functions.from_json(text, schema, {"columnNameOfCorruptRecord": BROKEN}))


def _made(spark: SparkSession, step: Step, found: dict[str, DataFrame], where: str) -> DataFrame:
    if step.sql is not None:
        return spark.sql(step.sql)
    frame = found[step.from_ or ""]
    if step.watermark is not None:
        frame = frame.withWatermark(step.watermark.column, f"{seconds_of(step.watermark.delay)} seconds")
    if step.distinct:
        frame = frame.dropDuplicatesWithinWatermark(step.distinct)
    return frame if step.windows is None else in_windows(frame, step.windows, where)
