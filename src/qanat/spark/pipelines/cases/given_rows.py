"""Given rows in the columns of a source: values in the types of the columns, defaults for what a row leaves out. Pure.

In a topic's rows, a mapping as `key` or `value` becomes JSON, as a producer would send it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.pipelines.document import PipelineError, nearest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, topic: str, where: str) -> pa.Table:
    """Records of a topic: offsets count up, and the partition is 0 unless a row says otherwise."""
    filled = []
    for number, row in enumerate(rows):
        plain = {"topic": topic, "partition": 0, "offset": number, "timestamp": _EPOCH, "timestampType": 0}
        known = {name: value for name, value in plain.items() if name in schema.names}
        headers = row.get("headers")
        if isinstance(headers, dict):
            row = {**row, "headers": [{"key": name, "value": value} for name, value in headers.items()]}
        filled.append({**known, **row})
    return table_rows(filled, schema, where)


def table_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, where: str) -> pa.Table:
    """Rows in the types of a schema; raises `PipelineError` that names row and column."""
    for number, row in enumerate(rows, 1):
        for name in row:
            if name not in schema.names:
                raise PipelineError(f"{where}, row {number}: there is no column {name}{nearest(name, schema.names)}")
    columns = [_column([row.get(field.name) for row in rows], field, where) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def untyped_rows(rows: Sequence[Mapping[str, Any]], where: str) -> pa.Table:
    """Rows in the types of their own values; raises `PipelineError` where those of a column differ."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        try:
            columns.append(pa.array([row.get(name) for row in rows]))
        except (pa.ArrowException, TypeError, ValueError) as fault:
            raise PipelineError(f"{where}: values of {name} have several types: {fault}") from None
    return pa.Table.from_arrays(columns, names=names)


def _column(values: Sequence[Any], field: pa.Field, where: str) -> pa.Array:
    cells = [pa.array([], field.type)]
    for number, value in enumerate(values, 1):
        try:
            cells.append(pa.array([_typed(value, field.type)], field.type))
        except (pa.ArrowException, TypeError, ValueError, InvalidOperation) as fault:
            raise PipelineError(f"{where}, row {number}: {field.name} should be {field.type}: {fault}") from None
    return pa.concat_arrays(cells)


def _typed(value: Any, kind: pa.DataType) -> Any:
    """A value of YAML as Arrow expects it for a type."""
    if value is None:
        return None
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes(value)
    if pa.types.is_timestamp(kind):
        return _time(value)
    if pa.types.is_date(kind) and isinstance(value, str):
        return date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_floating(kind) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else str(value)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        unknown = next((name for name in value if kind.get_field_index(name) < 0), None)
        if unknown is not None:
            raise ValueError(f"there is no field {unknown}{nearest(unknown, [field.name for field in kind])}")
        return {field.name: _typed(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_typed(item, kind.value_type) for item in value]
    if pa.types.is_map(kind) and isinstance(value, dict):
        return [(_typed(name, kind.key_type), _typed(item, kind.item_type)) for name, item in value.items()]
    return value


def _bytes(value: Any) -> bytes:
    """
    >>> _bytes({"id": 1}), _bytes("a"), _bytes(5)
    (b'{"id": 1}', b'a', b'5')
    """
    if isinstance(value, bytes):
        return value
    return (
        value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_written).encode()
    )


def _written(value: Any) -> str:
    """A time inside a JSON value."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")
    return str(value)


def _time(value: Any) -> datetime:
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    found: datetime = value
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
