"""Faults of ours that Spark tells as one sentence instead of as a stack trace.

Each step of a query runs in a Python process of its own, which ends with its first fault and leaves nothing but the
fault's text. Spark puts the whole way there before it, unless SPARK_HIDE_TRACEBACK is set. Our faults say what is wrong
and what to do, so it is set where one leaves our code; a bug is no such fault and keeps its trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from qanat.model.errors import QanatError

Class = TypeVar("Class", bound=type)

HIDE = "SPARK_HIDE_TRACEBACK"


def told_plainly(cls: Class) -> Class:
    """A class that Spark calls, its public methods watched for faults."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _watched(method))
    return cls


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with _plainly():
            result = method(*arguments, **named)
        return _each(result) if isinstance(result, Iterator) else result

    return call


def _each(items: Iterator[Any]) -> Iterator[Any]:
    with _plainly():
        yield from items


@contextmanager
def _plainly() -> Iterator[None]:
    try:
        yield
    except QanatError:
        os.environ[HIDE] = "1"
        raise
