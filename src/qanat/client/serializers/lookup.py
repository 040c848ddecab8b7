"""Which serializer a name, a type or an object stands for.

serializer(None)          # bytes and str as they are, everything else as JSON
serializer("str")         # by name; Java's class names are names as well
serializer(Order)         # by type: what a typed handler reads
serializer(my_function)   # any callable: value -> bytes
serializer(Avro(schema))  # an object with `encode`
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from qanat.client.errors import SerializationError
from qanat.client.serializers.json import Json
from qanat.client.serializers.plain import Bytes, Nothing, Number, Text, Uuid
from qanat.client.serializers.port import Codec, Deserializer, Headers, Serializer
from qanat.client.serializers.protobuf import Protobuf, is_message
from qanat.client.serializers.pydantic import Pydantic, is_model
from qanat.client.settings import java_value
from qanat.model.spelling import did_you_mean

NAMED: dict[str, Callable[[], Codec]] = {
    "bytes": Bytes,
    "str": Text,
    "json": Json,
    "int16": lambda: Number("int16", ">h"),
    "int32": lambda: Number("int32", ">i"),
    "int64": lambda: Number("int64", ">q"),
    "float32": lambda: Number("float32", ">f"),
    "float64": lambda: Number("float64", ">d"),
    "bool": lambda: Number("bool", ">?"),
    "uuid": Uuid,
    "none": Nothing,
}
"""Serializers that need no more than a name."""


class Automatic:
    """Bytes and str as they are, pydantic models and Protobuf messages by themselves, everything else as JSON."""

    def __init__(self) -> None:
        self._json = Json()

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return Text().encode(topic, value)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        kind = type(value)
        if is_model(kind):
            return Pydantic(kind).encode(topic, value)
        if is_message(kind):
            return Protobuf(kind).encode(topic, value)
        return self._json.encode(topic, value)


class _Function:
    """A function as a serializer or deserializer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        try:
            data = self._function(value)
        except Exception as fault:
            raise SerializationError(f"{topic}: {self._name} cannot write {value!r:.60}: {fault!r}") from fault
        if data is None or isinstance(data, bytes):
            return data
        raise SerializationError(f"{topic}: {self._name} returned {type(data).__name__} instead of bytes")

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        try:
            return self._function(data)
        except Exception as fault:
            raise SerializationError(f"{topic}: {self._name} cannot read the bytes: {fault!r}") from fault

    @property
    def _name(self) -> str:
        return getattr(self._function, "__name__", repr(self._function))


class _NotNull:
    """Refuses null where a handler's type does not allow it."""

    def __init__(self, inner: Deserializer, name: str) -> None:
        self._inner_decode = inner.decode
        self._name = name

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            raise SerializationError(
                f"{topic}: the value is null, but {self._name} is expected: take `{self._name} | None` for tombstones"
            )
        return self._inner_decode(topic, data, headers)


def serializer(spec: object = None) -> Serializer:
    """The serializer that `spec` stands for; raises `SerializationError`."""
    if spec is None:
        return Automatic()
    if isinstance(spec, Serializer) and not isinstance(spec, type | str | bytes):
        return spec
    return _codec(spec)


def deserializer(spec: object = None) -> Deserializer:
    """The deserializer that `spec` stands for: None stands for bytes."""
    if spec is None:
        return Bytes()
    if isinstance(spec, Deserializer) and not isinstance(spec, type | str | bytes):
        return spec
    return _codec(spec)


def payload_deserializer(kind: object) -> Deserializer:
    """The deserializer of a handler's annotation: null is refused unless the type allows it."""
    plain, is_optional = _without_none(kind)
    name = getattr(plain, "__name__", str(plain))
    if get_origin(plain) is Annotated:
        for note in get_args(plain)[1:]:
            if isinstance(note, Deserializer) and not isinstance(note, type):
                return note if is_optional else _NotNull(note, name)
    inner = deserializer(plain)
    if is_optional or plain in (Any, object):
        return inner
    return _NotNull(inner, name)


def _without_none(kind: object) -> tuple[object, bool]:
    """`Order | None` is Order, optional."""
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    members = get_args(kind)
    rest = tuple(one for one in members if one is not NoneType)
    if len(rest) == len(members):
        return kind, False
    return (rest[0] if len(rest) == 1 else Union[rest]), True  # noqa: UP007 - built at run time


def _codec(spec: object) -> Codec:
    if isinstance(spec, str):
        name = java_value("serializer", spec)
        if name in NAMED:
            return NAMED[str(name)]()
        needs = {"avro": "Avro(schema)", "protobuf": "Protobuf(Message)", "json_schema": "Json(Type)"}
        if name in needs:
            raise SerializationError(f"{spec} needs a schema: give qanat.client.serializers.{needs[str(name)]} instead")
        hint = did_you_mean(spec, NAMED, f"there are {', '.join(NAMED)}")
        raise SerializationError(f"there is no serializer {spec!r}{hint}")
    if spec in (bytes, bytearray, memoryview):
        return Bytes()
    if spec is str:
        return Text()
    if spec in (Any, object):
        return Json()
    if is_model(spec):
        return Pydantic(spec)
    if is_message(spec):
        return Protobuf(spec)
    if isinstance(spec, type) or get_origin(spec) is not None:
        return Json(spec)
    if callable(spec):
        return _Function(spec)
    raise SerializationError(f"{spec!r} is no serializer: give a name, a type, a function or an object with encode")
