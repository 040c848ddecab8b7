"""Signatures of handlers: checked when the decorator runs, so that a wrong one fails at import.

async def bill(order: Order) -> None
async def bill(order: Order, ctx: Context) -> Send
def render(job: Job) -> None                    # in a thread or a process
def load(batch: pa.RecordBatch) -> None         # of @app.table_batch
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from qanat.client.app.context import Context
from qanat.client.app.sending import Send
from qanat.client.errors import SignatureError

Kind = Literal["stream", "queue", "table_batch"]
_EXPECTED = {
    "stream": "async def {name}(payload: Type, ctx: Context) -> None",
    "queue": "def {name}(payload: Type, ctx: Context) -> None",
    "table_batch": "def {name}(batch: pyarrow.RecordBatch) -> None",
}
_ALSO = {
    "stream": "ctx may be left out, def runs in a thread, and Send or list[Send] may be returned",
    "queue": "ctx may be left out, and async def runs on the event loop",
    "table_batch": "async def runs on the event loop",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a handler takes."""

    payload: object
    """The annotation of the first parameter."""
    has_context: bool
    is_async: bool


def signature_of(function: Callable[..., object], kind: Kind, names: Mapping[str, Any] | None = None) -> Signature:
    """The signature of a handler; raises `SignatureError` with the expected one.

    `names` are those of the place where it is defined, for annotations that are local there.
    """
    if not inspect.isroutine(function):
        raise _refused(function, kind, "it is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _refused(function, kind, "it is a generator: return a list of Sends instead")
    parameters = _parameters(function, kind)
    hints = _hints(function, kind, names)
    payload = hints.get(parameters[0].name, inspect.Parameter.empty)
    if payload is inspect.Parameter.empty:
        raise _refused(function, kind, f"the parameter {parameters[0].name} has no type")
    if kind == "table_batch" and getattr(payload, "__name__", "") != "RecordBatch":
        raise _refused(function, kind, f"{parameters[0].name} is not a RecordBatch")
    if len(parameters) == 2 and (kind == "table_batch" or hints.get(parameters[1].name) is not Context):
        raise _refused(function, kind, f"the parameter {parameters[1].name} is not a Context")
    returned = hints.get("return", NoneType)
    if not _is_returnable(returned, kind):
        raise _refused(function, kind, f"it returns {getattr(returned, '__name__', returned)}")
    return Signature(payload, len(parameters) == 2, inspect.iscoroutinefunction(function))


def _parameters(function: Callable[..., object], kind: Kind) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not 1 <= len(found) <= 2 or any(one.kind not in positional for one in found):
        counted = "no parameter" if not found else f"the parameters {', '.join(one.name for one in found)}"
        raise _refused(function, kind, f"it has {counted}")
    return found


def _hints(function: Callable[..., object], kind: Kind, names: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return get_type_hints(function, localns=dict(names or {}), include_extras=True)
    except NameError as fault:
        raise _refused(function, kind, f"the type {fault.name} is not known where it is defined") from None
    except TypeError as fault:
        raise _refused(function, kind, str(fault)) from None


def _is_returnable(returned: object, kind: Kind) -> bool:
    if returned in (None, NoneType, Any, object):
        return True
    if kind != "stream":
        return False
    if returned is Send:
        return True
    members = [one for one in get_args(returned) if one is not Ellipsis]
    return bool(members) and all(_is_returnable(one, kind) for one in members)


def _refused(function: object, kind: Kind, reason: str) -> SignatureError:
    name = getattr(function, "__name__", "handler")
    where = getattr(function, "__module__", "")
    expected = _EXPECTED[kind].format(name=name)
    return SignatureError(
        f"@app.{kind} cannot use {where + '.' if where else ''}{name}: {reason}; expected `{expected}` ({_ALSO[kind]})"
    )
