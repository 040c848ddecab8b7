"""Values decoded one by one, with a reason for each misfit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped]

REASON_LENGTH_MAX = 300


class MisfitError(Exception):
    """A value that does not fit its schema."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column, null for nulls and misfits; and the reason of each misfit, by row."""

    column: pa.Array
    misfits: Mapping[int, str] = field(default_factory=dict)


def decode_each(values: pa.Array, decode: Callable[[bytes], object], kind: pa.DataType) -> Decoded:
    """A column of `kind`; `decode` raises `MisfitError` or returns a value for that Arrow type."""
    found: list[object] = []
    misfits: dict[int, str] = {}
    for row, value in enumerate(values.to_pylist()):
        try:
            found.append(None if value is None else decode(value))
        except MisfitError as fault:
            misfits[row] = shortened(str(fault))
            found.append(None)
    try:
        return Decoded(pa.array(found, kind), misfits)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _one_at_a_time(found, misfits, kind)


def _one_at_a_time(found: list[object], misfits: dict[int, str], kind: pa.DataType) -> Decoded:
    """Convert values one by one: Arrow does not name the value that it rejects."""
    for row, value in enumerate(found):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
            misfits[row] = shortened(str(fault))
            found[row] = None
    return Decoded(pa.array(found, kind), misfits)


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_LENGTH_MAX else line[: REASON_LENGTH_MAX - 3] + "..."


def shown(value: object) -> str:
    """A value for a message, shortened where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
