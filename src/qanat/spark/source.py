"""The data source `qanat`: the class behind `format("qanat")`.

Spark starts many short-lived Python processes, each for one step of a query. So every step imports only the reader or
writer that it needs.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark import __version__
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from qanat.model.errors import QanatError
from qanat.spark.error_messages import hide_tracebacks, traceback_hidden
from qanat.spark.options.option_reader import OptionError
from qanat.spark.options.options import source_options
from qanat.spark.schemas import arrow_schema, source_schema
from qanat.spark.spark_version import require_supported
from qanat.spark.worker_memory import retain_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "provider"
"""The property by which Spark tells CREATE TABLE."""
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@hide_tracebacks
class QanatDataSource(DataSource):
    """Topics as tables and streams. Every session knows it (`pyspark_qanat`); see also `register`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with traceback_hidden():
            require_supported(__version__)
        retain_memory()

    @classmethod
    def name(cls) -> str:
        return "qanat"

    def schema(self) -> StructType | str:
        if _PROVIDER in self.options:
            raise OptionError(
                "Spark forgets the options of a table whose format is written in Python, so that nothing could be read "
                "from it: write CREATE TEMPORARY VIEW name USING qanat OPTIONS (...) instead of CREATE TABLE"
            )
        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from qanat.spark.reads.batch_reader import BatchReader

        return BatchReader(source_options(self.options, is_stream=False), arrow_schema(schema, self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from qanat.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from qanat.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from qanat.spark.reads.stream_reader import RefusedStream, StreamReader

        try:
            return StreamReader(source_options(self.options, is_stream=True), arrow_schema(schema, self.options))
        except QanatError as fault:
            return RefusedStream(fault)


@hide_tracebacks
class FilteringDataSource(QanatDataSource):
    """The same, for sessions that push filters down; in others Spark rejects a reader with `pushFilters`."""

    def reader(self, schema: StructType) -> DataSourceReader:
        from qanat.spark.reads.batch_reader import FilteringBatchReader

        return FilteringBatchReader(source_options(self.options, is_stream=False), arrow_schema(schema, self.options))


def register(spark: SparkSession) -> None:
    """Register `format("qanat")` with a session, classic or of Spark Connect.

    Spark finds the format by itself where Qanat is installed (`pyspark_qanat`). Registered, its processes are forked
    off one that has imported it (`worker_python`) where Spark is local, and filters are pushed down in sessions with
    `spark.sql.python.filterPushdown.enabled`.
    """
    from qanat.spark.worker_python import forked_when_registered

    require_supported(spark.version)
    takes_filters = str(spark.conf.get(_PUSHDOWN, "false")).lower() == "true"
    with forked_when_registered(spark):
        spark.dataSource.register(FilteringDataSource if takes_filters else QanatDataSource)
