"""Rows of a lake as a data frame: committed files, between two points in time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qanat.spark.lake.commits import LakeFile
from qanat.spark.lake.lake import Lake
from qanat.spark.lake.parquet import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(
    spark: SparkSession, lake: Lake, files: Iterable[LakeFile], from_ms: int | None, until_ms: int | None
) -> DataFrame:
    """The rows of these files with timestamps in a range, both ends included."""
    from pyspark.sql import functions

    paths = [lake.folder.address(one.path) for one in files]
    reader = spark.read.schema(SPARK_SCHEMA).option("basePath", lake.folder.address())
    frame = reader.parquet(*paths) if paths else spark.createDataFrame([], SPARK_SCHEMA)
    frame = frame.drop("date", "hour")
    if from_ms is not None:
        frame = frame.where(functions.col("timestamp") >= functions.timestamp_millis(functions.lit(from_ms)))
    if until_ms is not None:
        frame = frame.where(functions.col("timestamp") <= functions.timestamp_millis(functions.lit(until_ms)))
    return frame
