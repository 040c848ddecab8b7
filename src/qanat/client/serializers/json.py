"""JSON by msgspec: of any value, or of one type, which is validated as it is read.

Types are msgspec structs, dataclasses, TypedDicts, NamedTuples, lists and dictionaries of such, and their unions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from qanat.client.errors import SerializationError
from qanat.client.serializers.port import Headers

_ENCODER = msgspec.json.Encoder()
_DEPTH_MAX = 50


class Json:
    """JSON of any value, or of `kind`."""

    __slots__ = ("_decode", "_name")

    def __init__(self, kind: Any = Any) -> None:
        try:
            self._decode = msgspec.json.Decoder(kind).decode
        except TypeError as fault:
            raise SerializationError(f"{kind!r} cannot be read from JSON: {fault}") from None
        self._name = "JSON" if kind is Any else getattr(kind, "__name__", str(kind))

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        try:
            return _ENCODER.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError) as fault:
            path, part = unserializable(value)
            raise SerializationError(
                f"{topic}: {path} cannot be written as JSON: {type(part).__name__} {part!r:.60} ({fault})"
            ) from None

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        try:
            return self._decode(data)
        except msgspec.DecodeError as fault:
            # msgspec names the field itself: "Expected `int`, got `str` - at `$.amount`".
            raise SerializationError(f"{topic}: {len(data)} bytes are no {self._name}: {fault}") from None
        except UnicodeDecodeError as fault:
            raise SerializationError(f"{topic}: {len(data)} bytes are no {self._name}: {fault.reason}") from None


def unserializable(
    value: object, encode: Callable[[Any], bytes] = _ENCODER.encode, path: str = "$", depth: int = 0
) -> tuple[str, object]:
    """The first part of a value that cannot be written, and its path; the value itself where no part is found."""
    if depth < _DEPTH_MAX:
        for name, part in _parts(value):
            try:
                encode(part)
            except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError):
                return unserializable(part, encode, path + name, depth + 1)
    return path, value


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f".{name}", part) for name, part in value.items()]
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, msgspec.Struct):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return [(f".{name}", getattr(value, name)) for name in fields]
    return []
