"""Schema registries: the port that serializers need of one, and the framing of registered messages.

A framed message is a zero byte, the schema's id in 4 bytes, and the payload: Confluent's wire format.
"""

from __future__ import annotations

import struct
from typing import Literal, Protocol

from qanat.client.errors import SerializationError

SchemaKind = Literal["AVRO", "JSON", "PROTOBUF"]
_FRAME = struct.Struct(">bI")


class SchemaRegistry(Protocol):
    """What serializers need of a registry; implementations cache, for these are called for every record."""

    def schema_id(self, subject: str, schema: str, kind: SchemaKind) -> int:
        """The id of a schema, which is registered under the subject where it is new."""

    def schema(self, schema_id: int) -> str:
        """The schema of an id; raises `LookupError` where there is none."""


class MemoryRegistry:
    """A registry in this process, for tests."""

    def __init__(self) -> None:
        self._schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        """The ids of each subject's schemas."""

    def schema_id(self, subject: str, schema: str, kind: SchemaKind) -> int:
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def schema(self, schema_id: int) -> str:
        if not 0 < schema_id <= len(self._schemas):
            raise LookupError(f"there is no schema {schema_id}")
        return self._schemas[schema_id - 1]


def framed(schema_id: int, payload: bytes) -> bytes:
    return _FRAME.pack(0, schema_id) + payload


def unframed(topic: str, data: bytes) -> tuple[int, bytes]:
    """The schema's id and the payload; raises `SerializationError` where the frame is missing."""
    if len(data) < _FRAME.size or data[0] != 0:
        raise SerializationError(
            f"{topic}: {len(data)} bytes do not begin with the id of a registered schema: "
            "was the record written without a registry?"
        )
    return _FRAME.unpack_from(data)[1], data[_FRAME.size :]


def registered(registry: SchemaRegistry, topic: str, schema_id: int) -> str:
    try:
        return registry.schema(schema_id)
    except LookupError:
        raise SerializationError(f"{topic}: the registry has no schema {schema_id}") from None
