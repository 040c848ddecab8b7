"""Decoding: the decoder of a value format, from binary values to a typed column."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.rows import Decoded
from qanat.spark.formats.value_format import SchemaError, ValueFormat


class Decoder(Protocol):
    def decode(self, values: pa.Array) -> Decoded:
        """A column as long as `values`; null for nulls and misfits."""
        ...


def decoder(form: ValueFormat, kind: pa.DataType) -> Decoder:
    """The decoder of a format; `kind` is the column's type. Each format is imported on use: there are many workers."""
    match form.format:
        case "json":
            from qanat.spark.formats.json_values import JsonDecoder

            return JsonDecoder(kind)
        case "csv":
            from qanat.spark.formats.csv_values import CsvDecoder

            _check_flat(kind)
            return CsvDecoder(kind, form.delimiter)
        case "text":
            from qanat.spark.formats.text_values import TextDecoder

            return TextDecoder()
        case "avro":
            from qanat.spark.formats.avro_values import AvroDecoder

            return AvroDecoder(form.schema, form.is_framed)
        case "protobuf":
            from qanat.spark.formats.protobuf_values import ProtobufDecoder

            return ProtobufDecoder(form.descriptor, form.message, form.is_framed)


def _check_flat(kind: pa.DataType) -> None:
    nested = [field.name for field in kind if pa.types.is_nested(field.type)] if pa.types.is_struct(kind) else ["value"]
    if nested:
        raise SchemaError(f"option valueSchema: a line of CSV cannot hold {nested[0]}, which is nested")
