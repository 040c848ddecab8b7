"""Avro values as JSON values, for people: a schema in Avro's JSON, and the reader of its bytes.

Brokers show values of topics to whoever may read them, by a schema that whoever may read them gives. Libraries for
Avro trust both: an array of a trillion nulls takes six bytes, and a record that contains itself goes as deep as its
bytes say. This reader has bounds instead. Clients and pipelines, which choose their schemas, use fastavro.

Bytes become base64; decimals, dates and timestamps text that a person reads; unions the value itself.

Rule: every value costs a unit, every level of nesting too; both have a bound.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import msgspec

from qanat.model.errors import MalformedMessageError

VALUES_MAX = 20_000
"""Values in one datum, each field and item being one."""
DEPTH_MAX = 64
_SCHEMA_CHARS_MAX = 256 * 1024
_DECIMAL_BYTES_MAX = 64
_LONG_BYTES_MAX = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_unpack_float = struct.Struct("<f").unpack_from
_unpack_double = struct.Struct("<d").unpack_from


class AvroSchemaError(MalformedMessageError):
    """A schema that is not one of Avro."""


class _Cursor:
    """Where a reader is in its datum, and what it may still read."""

    __slots__ = ("data", "depth", "left", "position")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = self.depth = 0
        self.left = VALUES_MAX

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise MalformedMessageError(f"it has more than {VALUES_MAX} values")

    def take(self, size: int) -> memoryview:
        begin, end = self.position, self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedMessageError("it ends too early")
        self.position = end
        return self.data[begin:end]

    def long(self) -> int:
        value = shift = 0
        for _ in range(_LONG_BYTES_MAX):
            if self.position >= len(self.data):
                raise MalformedMessageError("it ends too early")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= 0xFFFF_FFFF_FFFF_FFFF
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise MalformedMessageError("a number has more than ten bytes")


Read = Callable[[_Cursor], Any]


class AvroValues:
    """Reads the values of one schema; raises `AvroSchemaError` for what is none."""

    def __init__(self, schema: str) -> None:
        if len(schema) > _SCHEMA_CHARS_MAX:
            raise AvroSchemaError(f"the Avro schema has more than {_SCHEMA_CHARS_MAX} characters")
        try:
            document = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError) as fault:
            raise AvroSchemaError(f"the Avro schema is not JSON: {fault}") from None
        self._read = _Parser().reader(document, "", 0)

    def decode(self, data: bytes | memoryview) -> Any:
        """A value of JSON; raises `MalformedMessageError`."""
        cursor = _Cursor(memoryview(data))
        found = self._read(cursor)
        if cursor.position != len(cursor.data):
            raise MalformedMessageError(f"{len(cursor.data) - cursor.position} bytes are left over")
        return found


class _Parser:
    """Makes readers of a schema; a name stands for the reader of its definition, also inside of it."""

    def __init__(self) -> None:
        self._named: dict[str, list[Read]] = {}

    def reader(self, schema: Any, namespace: str, depth: int) -> Read:
        if depth > DEPTH_MAX:
            raise AvroSchemaError(f"the Avro schema is nested deeper than {DEPTH_MAX} levels")
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return _union([self.reader(one, namespace, depth + 1) for one in schema])
        if not isinstance(schema, dict):
            raise AvroSchemaError(f"{shown(schema)} in the Avro schema is no type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.reader(kind, namespace, depth + 1)
        logical = _logical(schema)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(str(kind), schema, namespace, depth, logical)
        if kind == "array":
            return _array(self.reader(_part(schema, "items"), namespace, depth + 1))
        if kind == "map":
            return _map(self.reader(_part(schema, "values"), namespace, depth + 1))
        if not isinstance(kind, str):
            raise AvroSchemaError(f"{shown(schema)} in the Avro schema has no type")
        return logical or self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> Read:
        if (simple := _SIMPLE.get(name)) is not None:
            return simple
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise AvroSchemaError(f"the type {shown(name)} of the Avro schema is not defined")
        return lambda cursor: found[0](cursor)

    def _definition(
        self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int, logical: Read | None
    ) -> Read:
        name = _part(schema, "name")
        if not isinstance(name, str) or not name:
            raise AvroSchemaError(f"a {kind} of the Avro schema has no name")
        space = schema.get("namespace", namespace)
        space = name.rpartition(".")[0] if "." in name else space if isinstance(space, str) else ""
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._named:
            raise AvroSchemaError(f"the Avro schema defines {shown(full)} twice")
        place: list[Read] = []
        self._named[full] = place
        if kind == "enum":
            made = _enum(_part(schema, "symbols"))
        elif kind == "fixed":
            made = logical or _fixed(_part(schema, "size"))
        else:
            made = self._record(_part(schema, "fields"), space, depth)
        place.append(made)
        return made

    def _record(self, fields: Any, namespace: str, depth: int) -> Read:
        if not isinstance(fields, list):
            raise AvroSchemaError("the fields of a record of the Avro schema are no list")
        readers: list[tuple[str, Read]] = []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise AvroSchemaError("a field of the Avro schema has no name")
            readers.append((field["name"], self.reader(_part(field, "type"), namespace, depth + 1)))

        def read(cursor: _Cursor) -> Any:
            cursor.spend()
            return {name: one(cursor) for name, one in readers}

        return _nested(read)


def _part(schema: Mapping[str, Any], name: str) -> Any:
    if name not in schema:
        raise AvroSchemaError(f"{shown(schema)} in the Avro schema has no {name}")
    return schema[name]


def shown(value: object) -> str:
    """The beginning of a value, for a message."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _nested(read: Read) -> Read:
    """The same, one level deeper."""

    def deeper(cursor: _Cursor) -> Any:
        cursor.depth += 1
        if cursor.depth > DEPTH_MAX:
            raise MalformedMessageError(f"it is nested deeper than {DEPTH_MAX} levels")
        found = read(cursor)
        cursor.depth -= 1
        return found

    return deeper


def _null(cursor: _Cursor) -> None:
    cursor.spend()


def _boolean(cursor: _Cursor) -> bool:
    cursor.spend()
    return cursor.take(1)[0] != 0


def _long(cursor: _Cursor) -> int:
    cursor.spend()
    return cursor.long()


def _float(cursor: _Cursor) -> float:
    cursor.spend()
    found: float = _unpack_float(cursor.take(4))[0]
    return found


def _double(cursor: _Cursor) -> float:
    cursor.spend()
    found: float = _unpack_double(cursor.take(8))[0]
    return found


def _plain_bytes(cursor: _Cursor) -> memoryview:
    cursor.spend()
    return cursor.take(cursor.long())


def _bytes(cursor: _Cursor) -> str:
    return base64.b64encode(_plain_bytes(cursor)).decode()


def _string(cursor: _Cursor) -> str:
    try:
        return str(_plain_bytes(cursor), "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessageError("a string is not UTF-8") from None


_SIMPLE: Mapping[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def _enum(symbols: Any) -> Read:
    if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
        raise AvroSchemaError("the symbols of an enum of the Avro schema are no list of names")

    def read(cursor: _Cursor) -> str:
        at = _long(cursor)
        if not 0 <= at < len(symbols):
            raise MalformedMessageError(f"an enum has no symbol {at}")
        return str(symbols[at])

    return read


def _fixed(size: Any) -> Read:
    if not isinstance(size, int) or not 0 <= size <= 1 << 24:
        raise AvroSchemaError(f"the size {shown(size)} of a fixed of the Avro schema is none")

    def read(cursor: _Cursor) -> str:
        cursor.spend()
        return base64.b64encode(cursor.take(size)).decode()

    return read


def _union(branches: list[Read]) -> Read:
    def read(cursor: _Cursor) -> Any:
        at = cursor.long()
        if not 0 <= at < len(branches):
            raise MalformedMessageError(f"a union has no branch {at}")
        return branches[at](cursor)

    return read


def _blocks(cursor: _Cursor, item: Callable[[], None]) -> None:
    """The blocks of an array or map: counts of items, until one of none."""
    while count := cursor.long():
        if count < 0:
            count = -count
            cursor.long()  # The size of the block, for readers that skip it.
        for _ in range(min(count, VALUES_MAX + 1)):
            cursor.spend()
            item()


def _array(item: Read) -> Read:
    def read(cursor: _Cursor) -> list[Any]:
        found: list[Any] = []
        _blocks(cursor, lambda: found.append(item(cursor)))
        return found

    return _nested(read)


def _map(value: Read) -> Read:
    def read(cursor: _Cursor) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def entry() -> None:
            name = _string(cursor)
            found[name] = value(cursor)

        _blocks(cursor, entry)
        return found

    return _nested(read)


def _logical(schema: Mapping[str, Any]) -> Read | None:
    """The reader of a logical type that people read in another form; None where there is none."""
    kind, logical = schema.get("type"), schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        if not isinstance(scale, int) or not 0 <= scale <= 2 * _DECIMAL_BYTES_MAX:
            raise AvroSchemaError(f"the scale {shown(scale)} of a decimal of the Avro schema is none")
        size = schema.get("size", 0) if kind == "fixed" else None
        if size is not None and not isinstance(size, int):
            raise AvroSchemaError(f"the size {shown(size)} of a fixed of the Avro schema is none")
        return _decimal(scale, size)
    if kind == "int" and logical == "date":
        return lambda cursor: _date(_long(cursor))
    if kind == "long" and isinstance(logical, str) and logical.endswith(("timestamp-millis", "timestamp-micros")):
        per_second = 1000 if logical.endswith("millis") else 1_000_000
        zone = "" if logical.startswith("local-") else "Z"
        return lambda cursor: _timestamp(_long(cursor), per_second, zone)
    return None


def _decimal(scale: int, size: int | None) -> Read:
    def read(cursor: _Cursor) -> str:
        cursor.spend()
        data = cursor.take(cursor.long() if size is None else size)
        if len(data) > _DECIMAL_BYTES_MAX:
            raise MalformedMessageError(f"a decimal has more than {_DECIMAL_BYTES_MAX} bytes")
        with localcontext() as context:
            context.prec = 4 * _DECIMAL_BYTES_MAX
            return f"{Decimal(int.from_bytes(data, 'big', signed=True)).scaleb(-scale):f}"

    return read


def _date(days: int) -> str | int:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return days


def _timestamp(value: int, per_second: int, zone: str) -> str | int:
    try:
        at = _EPOCH + timedelta(microseconds=value * (1_000_000 // per_second))
    except OverflowError:
        return value
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds" if per_second == 1000 else "microseconds") + zone
