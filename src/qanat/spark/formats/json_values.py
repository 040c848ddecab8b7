"""JSON values as rows of a struct."""

from __future__ import annotations

import json

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import json as arrow_json

from qanat.spark.formats.conversion import converted
from qanat.spark.formats.rows import Decoded, MisfitError, decode_each


class JsonDecoder:
    """Decodes whole columns with Arrow where the types allow it, value by value otherwise."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        plain = _plain(kind) if pa.types.is_struct(kind) else None
        self._plain: pa.Schema | None = None if plain is None or not len(kind) else pa.schema(list(plain))

    def decode(self, values: pa.Array) -> Decoded:
        if self._plain is not None and values.null_count == 0 and len(values):
            column = self._at_once(values, self._plain)
            if column is not None:
                return Decoded(column)
        return decode_each(values, self._decode_one, self._kind)

    def _decode_one(self, value: bytes) -> object:
        try:
            document = json.loads(value.decode())
        except UnicodeDecodeError as fault:
            raise MisfitError(f"it is not UTF-8: {fault.reason} at byte {fault.start}") from None
        except (ValueError, RecursionError) as fault:
            raise MisfitError(f"it is not JSON: {fault}") from None
        return converted(document, self._kind)

    def _at_once(self, values: pa.Array, schema: pa.Schema) -> pa.Array | None:
        """The column, or None where a value may be malformed and all must be decoded one by one.

        Arrow reads objects one after the other and ignores lines. A value that begins and ends with a brace and has no
        line break cannot combine with its neighbours, and as many objects as values are one object each.
        """
        if pc.any(pc.match_substring(values, b"\n")).as_py():
            return None
        if not pc.all(pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))).as_py():
            return None
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
        try:
            text = lines.cast(pa.string())[0].as_buffer()
            found = arrow_json.read_json(
                pa.BufferReader(text),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            if found.num_rows != len(values):
                return None
            return found.to_struct_array().combine_chunks().cast(self._kind)
        except pa.ArrowException:
            return None


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """The type that Arrow's parser reads for ours, or None; timestamps and dates are read as text and cast."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _plain(field.type)) for field in kind]
        return None if any(one is None for _, one in fields) else pa.struct(fields)
    if pa.types.is_list(kind):
        inner = _plain(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    is_same = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if is_same or pa.types.is_string(kind) else None
