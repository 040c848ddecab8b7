"""The errors that a response carries: its own and those of its rows, for any API.

The types of a response's fields say where errors can be. That is found once per API; after that, a response costs a
look at each row that can carry an error.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

import msgspec

Errors = dict[int, int]
CountErrors = Callable[[Any, Errors], None]
"""Adds every error of a response to a count by code."""

_CODE = "error_code"


def counter_of(kind: type[msgspec.Struct]) -> CountErrors:
    """The counter for one type of response."""
    return _OFTEN.get(kind.__name__) or _counter(kind) or _none


def _of_produce(response: Any, errors: Errors) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                _add(partition.error_code, errors)


def _of_fetch(response: Any, errors: Errors) -> None:
    if response.error_code:
        _add(response.error_code, errors)
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code:
                _add(partition.error_code, errors)


_OFTEN: dict[str, CountErrors] = {"ProduceResponse": _of_produce, "FetchResponse": _of_fetch}
"""Written by hand: they run for every request."""


def _counter(kind: type[msgspec.Struct]) -> CountErrors | None:
    """The counter for a struct and everything below it; None where it has no place for an error."""
    below: list[tuple[Callable[[Any], Any], CountErrors]] = []
    for field in msgspec.structs.fields(kind):
        for inner in _row_types(field.type):
            count = _counter(inner)
            if count is not None:
                below.append((attrgetter(field.name), count))
    has_code = _CODE in kind.__struct_fields__

    def count_all(value: Any, errors: Errors) -> None:
        if has_code and value.error_code:
            _add(value.error_code, errors)
        for rows, count in below:
            for row in rows(value) or ():
                count(row, errors)

    return count_all if has_code or below else None


def _none(response: Any, errors: Errors) -> None:
    """For responses without a place for an error."""


def _add(code: int, errors: Errors) -> None:
    errors[code] = errors.get(code, 0) + 1


def _row_types(annotation: Any) -> list[type[msgspec.Struct]]:
    """The structs that a field lists; the list may be null."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return []
    found: list[type[msgspec.Struct]] = []
    for inner in get_args(annotation):
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found.append(inner)
        else:
            found += _row_types(inner)
    return found
