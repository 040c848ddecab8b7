"""The schema of a read: the columns of Spark's Kafka connector, typed values, headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from qanat.spark.ddl import check_columns
from qanat.spark.formats.decoding import decoder
from qanat.spark.formats.poison import MALFORMED
from qanat.spark.formats.value_format import SchemaError, ValueFormat
from qanat.spark.options.option_reader import OptionError, OptionReader
from qanat.spark.options.value_options import value_format

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
_NESTED = re.compile(r"\s*(struct|array|map)\s*<", re.IGNORECASE)


def source_schema(options: Mapping[str, str]) -> StructType | str:
    """The columns of a read with these options; as DDL, where only the JVM can parse them."""
    reader = OptionReader(options)
    form = value_format(reader)
    plain = WITH_HEADERS if reader.flag("includeHeaders", False) else PLAIN
    if form is None:
        return plain
    columns = {field.name: field.dataType.simpleString() for field in plain}
    columns["value"] = _value_type(form)
    if form.mode == "PERMISSIVE":
        columns["malformed"] = from_arrow_type(MALFORMED).simpleString()
    return ", ".join(f"`{name}` {found}" for name, found in columns.items())


def _value_type(form: ValueFormat) -> str:
    """The type of the column `value`, as DDL."""
    match form.format:
        case "text":
            return "string"
        case "avro":
            from qanat.spark.formats.avro_values import avro_type

            return _spark_type(avro_type(form.schema).kind)
        case "protobuf":
            from qanat.spark.formats.protobuf_values import protobuf_type

            return _spark_type(protobuf_type(form.descriptor, form.message))
    schema = form.schema.strip()
    if schema.startswith("{"):
        return _from_json(schema)
    try:
        check_columns(schema)
    except SchemaError as fault:
        raise SchemaError(f"option valueSchema: {fault}") from None
    return schema if _NESTED.match(schema) else f"struct<{schema}>"


def _spark_type(kind: pa.DataType) -> str:
    try:
        return _quoted(from_arrow_type(kind))
    except PySparkException as fault:
        raise SchemaError(f"the schema has a type without a column in Spark: {fault}") from None


def _quoted(kind: DataType) -> str:
    """DDL with quoted names, so that a field may have any name."""
    match kind:
        case StructType():
            fields = (f"`{field.name.replace('`', '``')}`: {_quoted(field.dataType)}" for field in kind)
            return f"struct<{', '.join(fields)}>"
        case ArrayType():
            return f"array<{_quoted(kind.elementType)}>"
        case MapType():
            return f"map<{_quoted(kind.keyType)}, {_quoted(kind.valueType)}>"
    return kind.simpleString()


def _from_json(schema: str) -> str:
    try:
        return _quoted(StructType.fromJson(json.loads(schema)))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as fault:
        raise SchemaError(f"option valueSchema is not a Spark schema in JSON: {fault}") from None


def arrow_schema(schema: StructType, options: Mapping[str, str]) -> pa.Schema:
    """The columns as the JVM expects them from a worker; raises where the query has another schema."""
    own = source_schema(options)
    if isinstance(own, StructType) and not _is_same(schema, own):
        raise OptionError(
            f"the columns of this read are {own.simpleString()}; leave .schema(...) out and select from them, or "
            "describe values in options valueFormat and valueSchema"
        )
    if isinstance(own, str) and "value" not in schema.names:
        raise OptionError(f"the columns of this read are {own}; leave .schema(...) out and select from them")
    found = to_arrow_schema(schema, timezone="UTC")
    form = value_format(OptionReader(options))
    if form is not None:
        # Executors would raise as well; here it is raised once, before anything is fetched.
        decoder(form, found.field("value").type)
    return found


def _is_same(schema: StructType, own: StructType) -> bool:
    return [(field.name, field.dataType) for field in schema] == [(field.name, field.dataType) for field in own]
