"""The pipeline `archive`: topics into a lake of Parquet files, each record once, with all that a restore needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.bundled.archive_settings import ABOUT, SETTINGS, parse_settings
from qanat.spark.pipelines.python_pipelines import python_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.pipeline import RunOptions, Stages


def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
    from qanat.spark.pipelines.bundled.archive_run import archive

    return archive(spark, parse_settings(settings), run_options)


PIPELINE = python_pipeline(
    "archive",
    "Topics into a Parquet lake, exactly once, with settings, offsets and group positions: a backup.",
    ABOUT,
    SETTINGS,
    parse_settings,
    launch,
)
