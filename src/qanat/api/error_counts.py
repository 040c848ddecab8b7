"""Which errors an answer carries: its own, and those of its rows, whatever the API.

Where to look is found out once per API, from the types of its answer's fields; after that, an
answer costs a look at each row that could carry an error.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

import msgspec

Errors = dict[int, int]
CountErrors = Callable[[Any, Errors], None]
"""Adds every error of an answer to a count by code."""

_CODE = "error_code"


def counter_of(kind: type[msgspec.Struct]) -> CountErrors:
    """What counts the errors of one kind of answer."""
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
"""Written out, because they are asked a million times."""


def _counter(kind: type[msgspec.Struct]) -> CountErrors | None:
    """What looks at a struct and everything below it; None where there is no place for an error."""
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
    """For answers that have no place for an error."""


def _add(code: int, errors: Errors) -> None:
    errors[code] = errors.get(code, 0) + 1


def _row_types(annotation: Any) -> list[type[msgspec.Struct]]:
    """The structs that a field is a list of, a list that may be null included."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return []
    found: list[type[msgspec.Struct]] = []
    for inner in get_args(annotation):
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found.append(inner)
        else:
            found += _row_types(inner)
    return found
