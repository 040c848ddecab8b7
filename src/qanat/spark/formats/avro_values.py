"""Avro values, each a single datum without a container file."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.avro_types import Described, described
from qanat.spark.formats.framing import unframed
from qanat.spark.formats.rows import Decoded, MisfitError, decode_each
from qanat.spark.formats.value_format import SchemaError

_MISFITS = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, StopIteration, struct.error)


def avro_type(schema: str) -> Described:
    """The type of values of a schema."""
    return described(_parsed(schema))


def _parsed(schema: str) -> Any:
    fastavro = _library()
    try:
        document = json.loads(schema)
    except ValueError as fault:
        raise SchemaError(f"option valueSchema is not JSON, as Avro schemas are: {fault}") from None
    try:
        return fastavro.parse_schema(document)
    except (
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
        KeyError,
        TypeError,
        ValueError,
    ) as fault:
        raise SchemaError(f"option valueSchema is not an Avro schema: {type(fault).__name__} {fault}") from None


class AvroDecoder:
    def __init__(self, schema: str, is_framed: bool) -> None:
        self._schema = _parsed(schema)
        self._described = described(self._schema)
        self._is_framed = is_framed
        self._read = _library().schemaless_reader

    def decode(self, values: pa.Array) -> Decoded:
        return decode_each(values, self._decode_one, self._described.kind)

    def _decode_one(self, value: bytes) -> object:
        datum = unframed(value, is_protobuf=False) if self._is_framed else value
        source = io.BytesIO(datum)
        try:
            found = self._read(source, self._schema, None)
        except _MISFITS as fault:
            raise MisfitError(f"it is not Avro of this schema: {_why(fault)}") from None
        if source.tell() != len(datum):
            raise MisfitError(f"it is not Avro of this schema: {len(datum) - source.tell()} bytes are left over")
        adapt = self._described.adapt
        return found if adapt is None else adapt(found)


def _why(fault: Exception) -> str:
    """The reader's reason; it has none for a value that ends too early."""
    return "it ends too early" if isinstance(fault, EOFError | IndexError) else str(fault) or type(fault).__name__


def _library() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ModuleNotFoundError:
        raise SchemaError("valueFormat=avro needs fastavro: pip install 'qanat[formats]'") from None
    return fastavro
