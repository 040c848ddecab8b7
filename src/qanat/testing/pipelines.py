"""Spark pipelines on given rows, in tests: no broker, no topics, no checkpoint.

The fixture `qanat_pipeline` is a `PipelineTests` on the session of the fixture `qanat_spark`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from qanat.app.pipelines.case_runner import definition_of
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.cases.case_file import find_case_file, read_cases
from qanat.spark.pipelines.cases.case_run import ComputedTables, computed, run_case

Rows = Sequence[Mapping[str, Any]]


class PipelineRun:
    """A pipeline that was run on given rows."""

    def __init__(self, tables: ComputedTables) -> None:
        self._tables = tables

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table or sink."""
        return self._tables.rows(table)

    def expect(self, table: str, rows: Rows) -> None:
        """Fail with the difference where a table or sink has other rows; their order does not count."""
        __tracebackhide__ = True
        found = self._tables.difference(table, rows)
        if found is not None:
            raise AssertionError(str(found))


class PipelineTests:
    """Runs pipelines on given rows, in one Spark session."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __call__(self, pipeline: str | PathLike[str], given: Mapping[str, Rows], **settings: str) -> PipelineRun:
        """Run a pipeline, a YAML file or an installed one, on rows for its sources; raises `PipelineError`."""
        return PipelineRun(computed(self._spark, definition_of(named(fspath(pipeline)), settings), given))

    def check(self, file: str | PathLike[str]) -> None:
        """Run all cases of a file, as `qanat pipeline test` does, and fail with their differences."""
        __tracebackhide__ = True
        found = read_cases(find_case_file(fspath(file)))
        pipeline = named(found.pipeline)
        failures = [
            f"{case.name}: {difference}"
            for case in found.cases
            for difference in run_case(self._spark, definition_of(pipeline, case.settings), case)
        ]
        if failures:
            raise AssertionError("\n".join(failures))
