"""Protobuf messages of one generated class, with or without a schema registry.

A registered message has, between frame and payload, the path of its type in the file: zigzag numbers, and a single
zero byte for the first message.
"""

from __future__ import annotations

from typing import Any

from qanat.client.errors import SerializationError
from qanat.client.serializers.port import Headers
from qanat.client.serializers.registry import SchemaRegistry, framed, registered, unframed


def is_message(kind: object) -> bool:
    """Whether a type is a generated message; protobuf itself is not imported for that."""
    return isinstance(kind, type) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializeToString")


class Protobuf:
    """Protobuf of one message class."""

    def __init__(self, kind: Any, registry: SchemaRegistry | None = None, *, is_key: bool = False) -> None:
        if not is_message(kind):
            raise SerializationError(f"{kind!r} is no Protobuf message: give a class that protoc generated")
        self._kind = kind
        self._registry = registry
        self._suffix = "-key" if is_key else "-value"
        self._indexes = _encoded_path(kind.DESCRIPTOR)

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._kind):
            raise SerializationError(f"{topic}: expected {self._kind.__name__}, got {type(value).__name__}")
        missing = value.FindInitializationErrors() if hasattr(value, "FindInitializationErrors") else []
        if missing:
            raise SerializationError(f"{topic}: {self._kind.__name__} lacks the required field $.{missing[0]}")
        payload: bytes = value.SerializeToString()
        if self._registry is None:
            return payload
        schema_id = self._registry.schema_id(topic + self._suffix, self._schema_text(), "PROTOBUF")
        return framed(schema_id, self._indexes + payload)

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        payload = data
        if self._registry is not None:
            schema_id, payload = unframed(topic, data)
            registered(self._registry, topic, schema_id)
            payload = _after_path(topic, payload)
        message = self._kind()
        try:
            message.ParseFromString(payload)
        except Exception as fault:  # noqa: BLE001 - DecodeError is of google.protobuf, which is not imported here
            raise SerializationError(f"{topic}: {len(data)} bytes are no {self._kind.__name__}: {fault}") from None
        return message

    def _schema_text(self) -> str:
        """The file's descriptor in base64: the registries' `serialized` format."""
        from base64 import b64encode

        return b64encode(self._kind.DESCRIPTOR.file.serialized_pb).decode()


def _encoded_path(descriptor: Any) -> bytes:
    path: list[int] = []
    while descriptor is not None:
        parent = descriptor.containing_type
        siblings = parent.nested_types if parent is not None else descriptor.file.message_types_by_name.values()
        path.insert(0, [one.full_name for one in siblings].index(descriptor.full_name))
        descriptor = parent
    if path == [0]:
        return b"\x00"
    return b"".join(_varint(2 * number) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _after_path(topic: str, payload: bytes) -> bytes:
    at = 0
    left = 1
    is_count = True
    while left:
        shift = number = 0
        while True:
            if at >= len(payload) or shift > 28:
                raise SerializationError(f"{topic}: the path of the message's type is cut off")
            number |= (payload[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not payload[at - 1] & 0x80:
                break
        left -= 1
        if is_count:
            left, is_count = number >> 1, False
    return payload[at:]
