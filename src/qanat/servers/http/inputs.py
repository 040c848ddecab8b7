"""Inputs of operations: the bases of their types, and JSON decoded with problems that name the fault."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from qanat.model.spelling import did_you_mean
from qanat.servers.http.problems import Problem


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of query parameters; the string under a field is its meaning."""


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of request bodies."""


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes, what: str = "the body") -> Any:
    """Decode a JSON document; a problem names the place of the fault."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as fault:
        raise mistyped(str(fault), what, decoder.type) from None
    except msgspec.DecodeError as fault:
        position = _position(str(fault), len(body))
        reason = str(fault).partition(" (byte")[0].removeprefix("JSON is malformed: ")
        raise Problem(400, f"{what} is not JSON: {reason}, at byte {position}", position=position) from None
    except UnicodeDecodeError as fault:
        raise Problem(400, f"{what} is not UTF-8: byte {fault.start}", position=fault.start) from None
    except RecursionError:
        raise Problem(400, f"{what} is nested too deeply") from None


def mistyped(message: str, what: str, kind: object = None) -> Problem:
    """The problem of a value of the wrong type, with the place that msgspec names (`$.a[0]`)."""
    reason, found, where = message.partition(" - at `")
    place = where.rstrip("`").removeprefix("$").replace("[...]", "") if found else ""
    detail = f"{what}{f' at {place}' if place else ''}: {reason.replace('`', '')}"
    if kind is not None and reason.startswith("Invalid enum value"):
        choices = _choices(inspect.type_info(kind), place.rpartition(".")[2])
        detail += f"; choose {' or '.join(choices)}" if choices else ""
    elif kind is not None and not place and "unknown field" in reason:
        info = inspect.type_info(kind)
        known = [member.encode_name for member in info.fields] if isinstance(info, inspect.StructType) else []
        detail += did_you_mean(reason.split("`")[1], known, f"known are {', '.join(known)}") if known else ""
    return Problem(400, detail, pointer=place or "/")


def _position(message: str, end: int) -> int:
    """The byte that msgspec names ("JSON is malformed: invalid character (byte 12)"); the end where there is none."""
    digits = message.rpartition("(byte ")[2].rstrip(")")
    return int(digits) if digits.isdigit() else end


def _choices(kind: inspect.Type, name: str) -> list[str]:
    """The values of a member with fixed words, anywhere in a type: the words, and `a number`."""
    if isinstance(kind, inspect.UnionType):
        return next((found for one in kind.types if (found := _choices(one, name))), [])
    if isinstance(kind, inspect.ListType):
        return _choices(kind.item_type, name)
    if not isinstance(kind, inspect.StructType):
        return []
    for member in kind.fields:
        if member.encode_name == name:
            types = member.type.types if isinstance(member.type, inspect.UnionType) else (member.type,)
            words = [str(word) for one in types if isinstance(one, inspect.LiteralType) for word in one.values]
            return words + ["a number"] * any(isinstance(one, inspect.IntType) for one in types)
    return next((found for member in kind.fields if (found := _choices(member.type, name))), [])
