"""A user's function of one row, applied to Arrow batches on executors.

It gets a row as a dict and returns a dict, None for no row, or several dicts. An error names step and record, and ends
the query: nothing of the micro-batch is written, and the next run repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.model.errors import QanatError
from qanat.spark.error_messages import hide_tracebacks
from qanat.spark.formats.rows import shortened
from qanat.spark.pipelines.document import nearest
from qanat.spark.pipelines.user_functions.references import described

_PLACE = ("topic", "partition", "offset")


class StepError(QanatError):
    """A user's function that raised, or whose result does not fit."""


@hide_tracebacks
class RowFunction:
    """A function of one row, for `mapInArrow`."""

    def __init__(
        self,
        where: str,
        reference: str,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        columns: pa.Schema,
    ) -> None:
        self._where = where
        self._reference = reference
        self._function = function
        self._options = dict(options)
        self._columns = columns

    def map_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's rows; raises `StepError`."""
        for batch in batches:
            made: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
            for row in batch.to_pylist():
                made += [(row, one) for one in self._rows(row)]
            columns = [self._column(field, made) for field in self._columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self._columns)

    def _rows(self, row: dict[str, Any]) -> list[Mapping[str, Any]]:
        try:
            result = self._function(dict(row), **self._options)
            if isinstance(result, Mapping):
                result = [result]
            found = [] if result is None else list(result) if isinstance(result, Iterable) else [result]
        except Exception as fault:  # noqa: BLE001 - a user's function may raise anything
            raise self._error(row, described(fault, self._reference)) from None
        for one in found:
            if not isinstance(one, Mapping):
                raise self._error(row, f"it returned {type(one).__name__}: a dict, None or several dicts were expected")
            unknown = next((name for name in one if name not in self._columns.names), None)
            if unknown is not None:
                hint = nearest(str(unknown), self._columns.names)
                raise self._error(row, f"it returned {unknown}, which is not in returns{hint}")
        return found

    def _column(self, field: pa.Field, made: list[tuple[dict[str, Any], Mapping[str, Any]]]) -> pa.Array:
        try:
            return pa.array([one.get(field.name) for _, one in made], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            # Arrow does not name the value that it rejects.
            for row, one in made:
                try:
                    pa.array([one.get(field.name)], field.type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
                    raise self._error(row, f"it returned a {field.name} that is not {field.type}: {fault}") from None
            raise

    def _error(self, row: Mapping[str, Any], what: str) -> StepError:
        return StepError(f"{self._where}: {self._reference} failed at {_record(row)}: {shortened(what)}")


def _record(row: Mapping[str, Any]) -> str:
    """
    >>> _record({"topic": "orders", "partition": 1, "offset": 7, "value": b"x"})
    'offset 7 of orders partition 1'
    >>> _record({"id": 5})
    "row {'id': 5}"
    """
    if all(row.get(name) is not None for name in _PLACE):
        return f"offset {row['offset']} of {row['topic']} partition {row['partition']}"
    return f"row {shortened(repr(dict(row)))}"
