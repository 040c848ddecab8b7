"""Which columns a read has, and which a write may have: those of Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from qanat.spark.options import OptionError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
PLAIN = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
WITH_HEADERS = StructType([*PLAIN.fields, StructField("headers", HEADERS)])


def source_schema(options: Mapping[str, str]) -> StructType:
    """The columns that a read with these options has."""
    wants_headers = next((value for key, value in options.items() if key.lower() == "includeheaders"), "false")
    return WITH_HEADERS if wants_headers.strip().lower() == "true" else PLAIN


def arrow_schema(schema: StructType, options: Mapping[str, str]) -> pa.Schema:
    """The columns as the JVM expects them from a worker; raises where somebody asked for others."""
    own = source_schema(options)
    if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in own]:
        raise OptionError(
            f"the columns of this read are {own.simpleString()}; leave .schema(...) out and select from them"
        )
    return to_arrow_schema(schema, timezone="UTC")
