"""The cases of a pipeline, run in a small Spark of this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qanat.app.pipelines.pipeline_runner import quiet_settings
from qanat.spark.pipelines.cases.case_file import Case
from qanat.spark.pipelines.definition import Definition
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.pipeline import Pipeline
from qanat.spark.session import SHORT_LIVED_JAVA, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@contextmanager
def small_session(*, is_verbose: bool = False) -> Iterator[SparkSession]:
    """A Spark for a few rows, in this process; or the one that the process already has."""
    existing = _active_session()
    if existing is not None:
        yield existing
        return
    settings = {**quiet_settings(is_verbose=is_verbose, java_options=SHORT_LIVED_JAVA), **_SMALL}
    spark = session("qanat-test", "local[1]", settings)
    try:
        yield spark
    finally:
        spark.stop()


def _active_session() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def definition_of(pipeline: Pipeline, settings: Mapping[str, str]) -> Definition:
    """What a pipeline with cases declares; raises `PipelineError`."""
    if pipeline.define is None:
        raise PipelineError(f"pipeline {pipeline.name} is written in Python: only pipelines in YAML have cases")
    return pipeline.define(settings)


def run_cases(pipeline: Pipeline, cases: Sequence[Case], *, is_verbose: bool) -> Iterator[tuple[Case, list[str]]]:
    """Each case with what is wrong with it. Raises `PipelineError` before Spark starts, where nothing can run."""
    definitions = [definition_of(pipeline, case.settings) for case in cases]
    with small_session(is_verbose=is_verbose) as spark:
        from qanat.spark.pipelines.cases.case_run import run_case

        for case, definition in zip(cases, definitions, strict=True):
            try:
                yield case, [str(one) for one in run_case(spark, definition, case)]
            except PipelineError as fault:
                yield case, [str(fault)]
