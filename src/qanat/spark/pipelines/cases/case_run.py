"""A pipeline in batch mode: its tables computed from given rows, without a broker and without a checkpoint.

The rows of each source are one batch: every window is over at its end, and no row is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qanat.spark.pipelines.cases.case_file import Case
from qanat.spark.pipelines.cases.comparison import Difference, difference
from qanat.spark.pipelines.cases.given_rows import record_rows, table_rows, untyped_rows
from qanat.spark.pipelines.definition import Definition, Source, option_text
from qanat.spark.pipelines.document import PipelineError, nearest
from qanat.spark.pipelines.frames import read_table, tables, with_record
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.value_output import outgoing

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Given = Mapping[str, Sequence[Mapping[str, Any]]]


class ComputedTables:
    """The tables and sinks of a pipeline, by name; where both have one, it is the sink's."""

    def __init__(self, pipeline: Definition, frames: Mapping[str, DataFrame]) -> None:
        self._pipeline = pipeline
        self._frames = frames

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table or sink; raises `PipelineError`."""
        return self._computed(name)[1]

    def difference(self, name: str, expected: Sequence[Mapping[str, Any]]) -> Difference | None:
        """How the rows of a table or sink differ from the expected ones; raises `PipelineError`."""
        columns, rows = self._computed(name)
        return difference(name, expected, rows, columns)

    def _computed(self, name: str) -> tuple[list[str], list[dict[str, Any]]]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        frame = self._frame(name)
        try:
            found: list[dict[str, Any]] = frame.toArrow().to_pylist()
        except (PySparkException, Py4JError) as fault:
            raise PipelineError(f"pipeline {self._pipeline.name}, {name}: {spark_reason(fault)}") from None
        return frame.columns, found

    def _frame(self, name: str) -> DataFrame:
        if name in self._pipeline.sinks:
            sink = self._pipeline.sinks[name]
            return outgoing(self._frames[sink.from_], sink, f"pipeline {self._pipeline.name}, sink {name}")
        if name in self._frames:
            return self._frames[name]
        known = list(dict.fromkeys([*self._pipeline.sinks, *self._frames]))
        raise PipelineError(f"pipeline {self._pipeline.name} has no table and no sink {name}{nearest(name, known)}")


def computed(spark: SparkSession, pipeline: Definition, given: Given) -> ComputedTables:
    """The tables of a pipeline on given rows; topics without rows are empty. Raises `PipelineError`."""
    for name in given:
        if name not in pipeline.sources:
            raise PipelineError(f"pipeline {pipeline.name} has no source {name}{nearest(name, list(pipeline.sources))}")
    try:
        frames = tables(spark, pipeline, lambda name, source: _given(spark, pipeline, name, source, given.get(name)))
    finally:
        # Another pipeline of the session must not find them; frames no longer need them.
        for name in (*pipeline.sources, *pipeline.steps):
            spark.catalog.dropTempView(name)
    return ComputedTables(pipeline, frames)


def run_case(spark: SparkSession, pipeline: Definition, case: Case) -> list[Difference]:
    """The differences between expected and computed rows; none where the case passes. Raises `PipelineError`."""
    found = computed(spark, pipeline, case.given)
    differences = [found.difference(name, rows) for name, rows in case.expect.items()]
    return [one for one in differences if one is not None]


def _given(
    spark: SparkSession, pipeline: Definition, name: str, source: Source, rows: Sequence[Mapping[str, Any]] | None
) -> DataFrame:
    """A source on given rows; a table to enrich from without any is read."""
    if rows is None and not source.is_stream:
        return read_table(spark, source)
    where = f"pipeline {pipeline.name}, given rows of {name}"
    if source.has_records:
        return with_record(_records(spark, source, rows or (), where), source)
    from pyspark.sql.types import StructType

    given = list(rows or ())
    if source.schema is not None:
        schema = StructType.fromDDL(source.schema)
        assert isinstance(schema, StructType)
        return _frame(spark, table_rows(given, _arrow(schema), where), schema)
    if not given:
        raise PipelineError(f"{where}: without a schema in the pipeline, the columns of an empty table are unknown")
    return _frame(spark, untyped_rows(given, where))


def _records(spark: SparkSession, source: Source, rows: Sequence[Mapping[str, Any]], where: str) -> DataFrame:
    from pyspark.sql.types import StructType

    from qanat.spark.schemas import source_schema

    options = {key: option_text(value) for key, value in source.options.items()}
    columns = source_schema({**options, "includeHeaders": option_text(source.headers or source.lake is not None)})
    schema = columns if isinstance(columns, StructType) else StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    topic = source.topic or next(iter(source.topics), source.pattern or "")
    return _frame(spark, record_rows(rows, _arrow(schema), topic, where), schema)


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _frame(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    return spark.createDataFrame(table) if schema is None else spark.createDataFrame(table, schema)
