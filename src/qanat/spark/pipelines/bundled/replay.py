"""The pipeline `replay`: a lake back into topics, up to a point in time; and the drill that compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.bundled.replay_settings import ABOUT, SETTINGS, check_settings, parse_settings
from qanat.spark.pipelines.python_pipelines import python_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.pipeline import RunOptions, Stages


def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
    from qanat.spark.pipelines.bundled.replay_drill import drill
    from qanat.spark.pipelines.bundled.replay_run import replay

    wanted = parse_settings(settings)
    return drill(spark, wanted, run_options) if wanted.is_drill else replay(spark, wanted, run_options)


PIPELINE = python_pipeline(
    "replay",
    "A lake of `archive` back into topics, up to a point in time; or, to verify, compared with them.",
    ABOUT,
    SETTINGS,
    check_settings,
    launch,
)
