"""Conversion of JSON and CSV values into the types of a schema, by the rules of Spark's `from_json`."""

from __future__ import annotations

import base64
import binascii
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.rows import MisfitError, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def converted(value: object, kind: pa.DataType, path: str = "") -> object:
    """A value of parsed JSON for an Arrow type; raises `MisfitError` naming the field."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise _misfit(value, "object", path)
        return {field.name: converted(value.get(field.name), field.type, _under(path, field.name)) for field in kind}
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise _misfit(value, "array", path)
        return [converted(one, kind.value_type, f"{path}[{number}]") for number, one in enumerate(value)]
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise _misfit(value, "object", path)
        return [(key, converted(one, kind.item_type, _under(path, key))) for key, one in value.items()]
    return _leaf(value, kind, path)


def _leaf(value: object, kind: pa.DataType, path: str) -> object:
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in _BITS and isinstance(value, int) and is_number:
        if -(1 << _BITS[kind] - 1) <= value < 1 << _BITS[kind] - 1:
            return value
        raise MisfitError(f"field {path or 'value'}: {value} is too large for {kind}")
    if pa.types.is_floating(kind) and isinstance(value, int | float) and is_number:
        return _float(value, path)
    if pa.types.is_decimal(kind) and (is_number or isinstance(value, str)):
        return _decimal(str(value), kind, path)
    if pa.types.is_timestamp(kind) and isinstance(value, int) and is_number:
        return _timestamp(value, kind, path)
    if isinstance(value, str):
        return from_text(value, kind, path)
    raise _misfit(value, _type_name(kind), path)


def from_text(text: str, kind: pa.DataType, path: str) -> object:
    """A value from text."""
    try:
        if pa.types.is_timestamp(kind):
            timestamp = datetime.fromisoformat(text.strip())
            return timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
        if pa.types.is_date(kind):
            return date.fromisoformat(text.strip())
        if pa.types.is_binary(kind):
            return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error, OverflowError):
        pass
    raise _misfit(text, _type_name(kind), path)


def from_field(text: str, kind: pa.DataType, path: str) -> object:
    """A field of CSV: no field is null, numbers and booleans are parsed."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    bare = text.strip()
    try:
        if pa.types.is_boolean(kind):
            return {"true": True, "false": False}[bare.lower()]
        if kind in _BITS:
            return converted(int(_digits(bare)), kind, path)
        if pa.types.is_floating(kind):
            return float(_digits(bare))
    except (KeyError, ValueError):
        raise _misfit(text, _type_name(kind), path) from None
    if pa.types.is_decimal(kind):
        return _decimal(bare, kind, path)
    return from_text(bare, kind, path)


def _digits(text: str) -> str:
    """Python reads 1_000 and digits of every script; CSV does not."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


def _timestamp(seconds: int, kind: pa.DataType, path: str) -> datetime:
    """A timestamp from seconds; milliseconds, a common mistake, are out of range."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise _misfit(seconds, _type_name(kind), path) from None


def _float(value: float, path: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise MisfitError(f"field {path or 'value'}: {shown(value)} is too large for a double") from None


def _decimal(text: str, kind: pa.DataType, path: str) -> Decimal:
    try:
        number = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        raise _misfit(text, _type_name(kind), path) from None
    if not number.is_finite() or len(number.as_tuple().digits) > kind.precision:
        raise _misfit(text, _type_name(kind), path)
    return number


def _misfit(value: object, wanted: str, path: str) -> MisfitError:
    reason = f"{_json(value)} is not of type {wanted}"
    return MisfitError(f"field {path}: {reason}" if path else reason)


def _json(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _type_name(kind: pa.DataType) -> str:
    """The name of a type in Spark."""
    words = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
    if pa.types.is_timestamp(kind):
        return "timestamp (2026-01-31T12:00:00Z, or seconds since 1970)"
    if pa.types.is_date(kind):
        return "date (2026-01-31)"
    if pa.types.is_binary(kind):
        return "binary (as base64)"
    return words.get(str(kind), str(kind))


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
