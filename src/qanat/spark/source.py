"""The data source `qanat`: what Spark finds behind `format("qanat")`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from qanat.spark.batch_reader import BatchReader, FilteringBatchReader
from qanat.spark.options import source_options
from qanat.spark.schemas import arrow_schema, source_schema
from qanat.spark.stream_reader import StreamReader
from qanat.spark.writers import batch_writer, stream_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class QanatDataSource(DataSource):
    """Topics as tables and streams. Register it once: `qanat.spark.register(spark)`."""

    batch_reader = BatchReader

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "qanat"

    def schema(self) -> StructType | str:
        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return self.batch_reader(source_options(self.options, is_stream=False), arrow_schema(schema, self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return stream_writer(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(source_options(self.options, is_stream=True), arrow_schema(schema, self.options))


class FilteringDataSource(QanatDataSource):
    """The same, for sessions that push filters down; in others Spark refuses a reader that would take them."""

    batch_reader = FilteringBatchReader


def register(spark: SparkSession) -> None:
    """Make `format("qanat")` known to a session."""
    takes_filters = str(spark.conf.get(_PUSHDOWN, "false")).lower() == "true"
    spark.dataSource.register(FilteringDataSource if takes_filters else QanatDataSource)
