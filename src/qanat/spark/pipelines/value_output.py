"""Typed values on the way out: columns as the records' values, in the sink's `valueFormat`.

The value is the column `value` where it is a struct, otherwise all columns that are no part of a record. A null struct
is a tombstone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.spark.pipelines.definition import Sink
from qanat.spark.pipelines.document import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_COLUMNS = ("key", "headers", "topic", "partition", "timestamp")


def outgoing(frame: DataFrame, sink: Sink, where: str) -> DataFrame:
    """The rows that a sink writes; raises `PipelineError` where the columns do not fit its `valueFormat`."""
    if sink.value_format is None:
        return frame
    names = [name for name in frame.columns if name not in RECORD_COLUMNS]
    if not names:
        raise PipelineError(f"{where}: valueFormat needs columns for the value besides {', '.join(frame.columns)}")
    record = [name for name in frame.columns if name in RECORD_COLUMNS]
    return frame.select(*record, _encoded(frame, sink, names, where).alias("value"))


def _encoded(frame: DataFrame, sink: Sink, names: list[str], where: str) -> Column:
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    if sink.value_format == "text":
        if len(names) > 1:
            raise PipelineError(f"{where}: valueFormat text needs one column; there are {', '.join(names)}")
        return functions.col(f"`{names[0]}`").cast("string")
    is_struct = names == ["value"] and isinstance(frame.schema["value"].dataType, StructType)
    value = functions.col("value") if is_struct else functions.struct(*(f"`{name}`" for name in names))
    if sink.value_format == "json":
        return functions.to_json(value)
    if sink.value_format == "csv":
        return functions.to_csv(value)
    return _avro(value, sink.value_schema or "", where)


def _avro(value: Column, schema: str, where: str) -> Column:
    from pyspark.sql.pandas.functions import arrow_udf

    from qanat.spark.formats.avro_values import AvroEncoder

    make: Any = arrow_udf  # Its overloads do not have a return type as text.
    found: Column = make(AvroEncoder(schema, where).encode, "binary")(value)
    return found
