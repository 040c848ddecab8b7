"""Bytes, texts and numbers, as Java's serializers of these names write them: big-endian, UTF-8."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from qanat.client.errors import SerializationError
from qanat.client.serializers.port import Headers


class Bytes:
    """Bytes as they are."""

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise _unfit(topic, value, "bytes")

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> bytes | None:
        return data


class Text:
    """UTF-8."""

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise _unfit(topic, value, "str")
        try:
            return value.encode()
        except UnicodeEncodeError as fault:
            raise SerializationError(f"{topic}: a str cannot be written as UTF-8: {fault.reason}") from None

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> str | None:
        if data is None:
            return None
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as fault:
            raise SerializationError(
                f"{topic}: {len(data)} bytes are no UTF-8: {fault.reason} at byte {fault.start}"
            ) from None


class Number:
    """A number of fixed size."""

    def __init__(self, name: str, layout: str) -> None:
        self._name = name
        self._layout = struct.Struct(layout)

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        try:
            return self._layout.pack(value)
        except (struct.error, OverflowError):
            raise _unfit(topic, value, self._name) from None

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        try:
            return self._layout.unpack(data)[0]
        except struct.error:
            raise SerializationError(
                f"{topic}: {self._name} takes {self._layout.size} bytes, but there are {len(data)}"
            ) from None


class Uuid:
    """A UUID as its text."""

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, UUID):
            raise _unfit(topic, value, "a UUID")
        return str(value).encode()

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> UUID | None:
        if data is None:
            return None
        try:
            return UUID(str(data, "ascii"))
        except ValueError:
            raise SerializationError(f"{topic}: {data[:40]!r} is no UUID") from None


class Nothing:
    """Always null, for keys that do not exist."""

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> None:
        if value is not None:
            raise _unfit(topic, value, "None")

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> None:
        return None


def _unfit(topic: str, value: object, wanted: str) -> SerializationError:
    return SerializationError(f"{topic}: expected {wanted}, got {type(value).__name__} {value!r:.60}")
