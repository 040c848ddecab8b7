"""The pipeline `metrics`: measurements in, rollups out, exactly once; malformed and late records are dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.bundled.metrics_settings import ABOUT, SETTINGS, parse_settings
from qanat.spark.pipelines.python_pipelines import python_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.pipeline import RunOptions, Stages


def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
    from qanat.spark.pipelines.bundled.metrics_run import metrics

    return metrics(spark, parse_settings(settings), run_options)


PIPELINE = python_pipeline(
    "metrics",
    "Measurements checked, counted once and rolled up by the minute, five minutes and the hour.",
    ABOUT,
    SETTINGS,
    parse_settings,
    launch,
)
