"""Avro values, each a single datum without a container file."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.model.errors import QanatError
from qanat.spark.formats.avro_types import Described, described
from qanat.spark.formats.framing import unframed
from qanat.spark.formats.rows import Decoded, MisfitError, decode_each, shortened
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


class UnfitRowError(QanatError):
    """A row that does not fit the schema in which it should be written."""


class AvroEncoder:
    """Rows as Avro values; `where` names the sink in errors."""

    def __init__(self, schema: str, where: str) -> None:
        self._text = schema
        self._where = where
        _parsed(schema)

    def encode(self, rows: pa.Array) -> pa.Array:
        """Binary values; null for null. Raises `UnfitRowError`."""
        schema, write = _parsed(self._text), _library().schemaless_writer
        made: list[bytes | None] = []
        for row in rows.to_pylist():
            sink = io.BytesIO()
            try:
                if row is not None:
                    write(sink, schema, _without_pairs(row))
            except (*_MISFITS, AttributeError) as fault:
                raise UnfitRowError(
                    f"{self._where}: row {shortened(repr(row))} does not fit the Avro schema: {shortened(_why(fault))}"
                ) from None
            made.append(None if row is None else sink.getvalue())
        return pa.array(made, pa.binary())


def _without_pairs(value: Any) -> Any:
    """A value of Arrow for Avro: a map is a dict and not a list of pairs.

    >>> _without_pairs({"tags": [("a", 1)], "names": ["x"]})
    {'tags': {'a': 1}, 'names': ['x']}
    """
    if isinstance(value, dict):
        return {name: _without_pairs(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, tuple) for item in value):
        return {name: _without_pairs(item) for name, item in value}
    return [_without_pairs(item) for item in value]


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
