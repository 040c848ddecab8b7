"""CSV values as rows of a struct: one line per value, its fields in the order of the schema."""

from __future__ import annotations

import csv

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import csv as arrow_csv

from qanat.spark.formats.conversion import from_field
from qanat.spark.formats.rows import Decoded, MisfitError, decode_each

_NEEDS_A_LOOK = (b'"', b"\n", b"\r", b"0x", b"0X")
"""Quotes and line breaks change where lines end; Arrow accepts hexadecimal numbers, we do not."""


class CsvDecoder:
    """Decodes whole columns with Arrow where nothing is quoted, value by value otherwise. An empty field is null."""

    def __init__(self, kind: pa.DataType, delimiter: str) -> None:
        self._kind = kind
        self._delimiter = delimiter
        self._types = {field.name: field.type for field in kind}
        unread = (pa.types.is_decimal, pa.types.is_binary, pa.types.is_timestamp)
        self._is_plain = not any(is_kind(one) for one in self._types.values() for is_kind in unread)

    def decode(self, values: pa.Array) -> Decoded:
        if self._is_plain and values.null_count == 0 and len(values):
            column = self._at_once(values)
            if column is not None:
                return Decoded(column)
        return decode_each(values, self._decode_one, self._kind)

    def _decode_one(self, value: bytes) -> object:
        try:
            line = value.decode()
            (fields,) = list(csv.reader([line.rstrip("\r\n")], delimiter=self._delimiter, strict=True)) or [[]]
        except UnicodeDecodeError as fault:
            raise MisfitError(f"it is not UTF-8: {fault.reason} at byte {fault.start}") from None
        except (csv.Error, ValueError) as fault:
            raise MisfitError(f"it is not a line of CSV: {fault}") from None
        if len(fields) != len(self._types):
            raise MisfitError(f"it has {len(fields)} fields where the schema has {len(self._types)}")
        return {
            name: from_field(field, kind, name) if field else None
            for field, (name, kind) in zip(fields, self._types.items(), strict=True)
        }

    def _at_once(self, values: pa.Array) -> pa.Array | None:
        """The column, or None where values must be decoded one by one. Without quotes and breaks a value is a line."""
        if any(pc.any(pc.match_substring(values, mark)).as_py() for mark in _NEEDS_A_LOOK):
            return None
        if pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
            return None
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
        try:
            text = lines.cast(pa.string())[0].as_buffer()
            found = arrow_csv.read_csv(
                pa.BufferReader(text),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=text.size + 1, column_names=list(self._types)
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, ignore_empty_lines=False),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=self._types,
                    null_values=[""],
                    strings_can_be_null=True,
                    true_values=["true"],
                    false_values=["false"],
                ),
            )
        except pa.ArrowException:
            return None
        return found.to_struct_array().combine_chunks() if found.num_rows == len(values) else None
