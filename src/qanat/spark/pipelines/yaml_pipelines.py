"""Pipelines that YAML declares completely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qanat.spark.pipelines.decoding import decode
from qanat.spark.pipelines.definition import Definition
from qanat.spark.pipelines.ordering import check_names
from qanat.spark.pipelines.pipeline import Pipeline, RunOptions, Stages
from qanat.spark.pipelines.user_functions.references import check_call, find_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def yaml_pipeline(text: str, origin: str = "the pipeline", folder: str | None = None) -> Pipeline:
    """A pipeline from YAML; modules of its functions may be in `folder`."""
    found = decode(text, origin)
    origin = f"pipeline {found.name}" if origin == "the pipeline" else origin

    def define(settings: Mapping[str, str]) -> Definition:
        checked = replace(decode(text, origin, settings), folder=folder)
        check_names(checked)
        check_functions(checked)
        return checked

    def check(settings: Mapping[str, str]) -> None:
        define(settings)

    def launch(spark: SparkSession, settings: Mapping[str, str], run_options: RunOptions) -> Stages:
        from qanat.spark.pipelines.launch import launch as started

        return started(spark, define(settings), run_options)

    return Pipeline(found.name, found.meaning, found.settings, text, check, launch, define=define)


def check_functions(pipeline: Definition) -> None:
    """Import the functions that a pipeline names, and check how they are called; raises `PipelineError`."""
    for name, step in pipeline.steps.items():
        if step.function is not None:
            where = f"pipeline {pipeline.name}, step {name}"
            function = find_function(step.function, pipeline.folder, where)
            arguments = ["row"] if step.rows is not None else step.inputs
            check_call(function, step.function, arguments, step.options, where)
    for name, sink in pipeline.sinks.items():
        if sink.python is not None:
            where = f"pipeline {pipeline.name}, sink {name}"
            function = find_function(sink.python, pipeline.folder, where)
            check_call(function, sink.python, ["batch", "batch_id"], sink.options, where)
