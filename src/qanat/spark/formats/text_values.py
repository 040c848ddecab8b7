"""Text values: UTF-8 as strings."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.rows import Decoded, MisfitError, decode_each


class TextDecoder:
    def decode(self, values: pa.Array) -> Decoded:
        try:
            return Decoded(values.cast(pa.string()))
        except pa.ArrowInvalid:
            return decode_each(values, _text, pa.string())


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as fault:
        raise MisfitError(f"it is not UTF-8: {fault.reason} at byte {fault.start}") from None
