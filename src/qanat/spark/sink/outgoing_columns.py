"""What is written: the columns that rows must have, where they go, and the batches that they become. Pure.

Every step of a write is a Python process of Spark's own, and most of them touch no row: this imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.compression import Codec

COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")
"""What is written; other columns are left out, as Spark's connector leaves them out."""
_READ_ONLY = ("offset", "timestampType")
"""Columns of a read, so that what was read can be written as it is."""
_NEAR = 0.85
"""From here on a column is a misspelling, whose content would be missed."""


class RowsError(QanatError):
    """Rows that cannot be written: a column is missing, of the wrong type, or has a value that goes nowhere."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go and in which form."""

    topic: str | None
    """For every row; None takes the column `topic`."""
    codec: Codec
    batch_bytes: int
    has_headers: bool


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One record batch for one partition, or the name of a file of them (`wire.staged`)."""

    at: TopicPartition
    batch: bytearray | memoryview
    rows: int
    instead: Callable[[], Iterable[EncodedBatch]] | None = None
    """Of a name: the batches themselves, for a broker that cannot take the file over."""


def check_columns(names_and_types: Mapping[str, str], topic: str | None) -> None:
    """Refuse a table before a query starts on it; types are in Spark's words."""
    absent = [name for name in COLUMNS if name not in names_and_types]
    for name in names_and_types:
        near = get_close_matches(name.lower(), absent, n=1, cutoff=_NEAR)
        if near and name not in (*COLUMNS, *_READ_ONLY):
            raise RowsError(f"column {name} cannot be written; did you mean {near[0]}? Rename it, or leave it out")
    if "value" not in names_and_types:
        raise RowsError("column value is missing: it holds what is written, as string or binary")
    if topic is None and "topic" not in names_and_types:
        raise RowsError("neither option topic nor column topic says where rows go")
    for name, told in names_and_types.items():
        if name in COLUMNS and told not in _TYPES[name]:
            raise RowsError(f"column {name} is {told}, but must be {' or '.join(_TYPES[name])}")


_TYPES: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
