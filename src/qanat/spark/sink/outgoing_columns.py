"""Outgoing columns: the columns that rows must have, the target of a write, and encoded batches. Pure.

Every step of a write is a Python process of its own, and most of them touch no row: this imports little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.compression import Codec

COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")
"""The columns that are written; others are ignored, as in Spark's connector."""
_READ_ONLY = ("offset", "timestampType")
"""Columns of a read that a write ignores, so that the result of a read can be written unchanged."""
_NEAR = 0.85
"""The similarity from which a column is a misspelling, whose content would be lost."""


class RowsError(QanatError):
    """Rows that cannot be written: a column is missing, of the wrong type, or has an impossible value."""


@dataclass(frozen=True, slots=True)
class Target:
    """The topic and form of a write."""

    topic: str | None
    """For every row; None takes the column `topic`."""
    codec: Codec
    batch_bytes: int
    has_headers: bool


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One record batch for one partition, or the name of a staged file (`wire.staged`)."""

    at: TopicPartition
    batch: bytearray | memoryview
    rows: int
    fallback: Callable[[], Iterable[EncodedBatch]] | None = None
    """For a file name: the batches themselves, for a broker that does not have the file or cannot ingest it."""
    may_be_unknown: bool = False
    """Whether the broker may be too old to know file names."""


def check_columns(names_and_types: Mapping[str, str], topic: str | None) -> None:
    """Check the columns of a table before a query starts; types are Spark's names."""
    absent = [name for name in COLUMNS if name not in names_and_types]
    for name in names_and_types:
        near = get_close_matches(name.lower(), absent, n=1, cutoff=_NEAR)
        if near and name not in (*COLUMNS, *_READ_ONLY):
            raise RowsError(f"column {name} cannot be written; did you mean {near[0]}? Rename it, or leave it out")
    if "value" not in names_and_types:
        raise RowsError("column value is missing: it holds the records' values, as string or binary")
    if topic is None and "topic" not in names_and_types:
        raise RowsError("neither option topic nor column topic names the topic")
    for name, kind in names_and_types.items():
        if name in COLUMNS and kind not in _TYPES[name]:
            raise RowsError(f"column {name} is {kind}, but must be {' or '.join(_TYPES[name])}")


_TYPES: Mapping[str, tuple[str, ...]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
