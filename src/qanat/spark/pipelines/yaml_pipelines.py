"""Pipelines that YAML declares completely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.decoding import decode
from qanat.spark.pipelines.definition import Definition
from qanat.spark.pipelines.ordering import check_names
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions, Stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def yaml_pipeline(text: str, origin: str = "the pipeline") -> Pipeline:
    """A pipeline from YAML."""
    found = decode(text, origin)
    origin = f"pipeline {found.name}" if origin == "the pipeline" else origin

    def define(settings: Mapping[str, str]) -> Definition:
        checked = decode(text, origin, settings)
        check_names(checked)
        return checked

    def check(settings: Mapping[str, str]) -> None:
        define(settings)

    def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
        from qanat.spark.pipelines.launch import launch as started

        return started(spark, define(settings), run_options)

    return Pipeline(found.name, found.meaning, found.settings, text, check, launch, define=define)
