"""The protocols of serializers: what a producer and a consumer need of them.

`headers` are the record's, for formats that note their schema there. None is no bytes: a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

Headers = Sequence[tuple[str, bytes | None]]


@runtime_checkable
class Serializer(Protocol):
    """Writes values as bytes."""

    def encode(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        """The bytes; raises `SerializationError`, which names the field."""


@runtime_checkable
class Deserializer(Protocol):
    """Reads values from bytes."""

    def decode(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        """The value; raises `SerializationError`, which names the field."""


class Codec(Serializer, Deserializer, Protocol):
    """Both."""
