"""Error messages without tracebacks: Spark shows our errors as one sentence.

Each step of a query runs in a Python process of its own, which ends with its first error and leaves only the error's
text. Spark puts the traceback before it, unless SPARK_HIDE_TRACEBACK is set. Our errors say what is wrong and what to
do, so this sets the variable where one leaves our code; a bug keeps its traceback.
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


def hide_tracebacks(cls: Class) -> Class:
    """Class decorator for classes that Spark calls: errors of their public methods hide their traceback."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _watched(method))
    return cls


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with traceback_hidden():
            result = method(*arguments, **named)
        return _each(result) if isinstance(result, Iterator) else result

    return call


def _each(items: Iterator[Any]) -> Iterator[Any]:
    with traceback_hidden():
        yield from items


@contextmanager
def traceback_hidden() -> Iterator[None]:
    """Within this context, our errors hide their traceback."""
    try:
        yield
    except QanatError:
        os.environ[HIDE] = "1"
        raise
