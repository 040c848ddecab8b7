"""The pipeline `mirror`: topics of one cluster in another, each record once, with the positions of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.bundled.mirror_settings import ABOUT, SETTINGS, parse_settings
from qanat.spark.pipelines.python_pipelines import python_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.pipeline import RunOptions, Stages


def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
    from qanat.spark.pipelines.bundled.mirror_run import mirror

    return mirror(spark, parse_settings(settings), run_options)


PIPELINE = python_pipeline(
    "mirror",
    "Topics of one cluster in another, exactly once, with their settings and the groups' positions.",
    ABOUT,
    SETTINGS,
    parse_settings,
    launch,
)
