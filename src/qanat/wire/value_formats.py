"""Formats of values that brokers show as JSON: Avro and Protobuf, by a schema, plain or behind a registry's prefix.

    value.format    avro, protobuf
    value.schema    Avro's schema in JSON; the base64 of Protobuf's file descriptor set
    value.message   Protobuf: the message, where the descriptor has several
    value.framing   none, confluent: a zero byte, four bytes of the schema's id, and for Protobuf the message's place

These are names of a topic's settings. Spark's options `valueFormat`, `valueSchema`, `valueFraming` mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from qanat.model.errors import MalformedMessageError
from qanat.wire.avro_values import AvroValues
from qanat.wire.protobuf import read_varint
from qanat.wire.protobuf_values import ProtobufValues

FORMAT, SCHEMA, MESSAGE, FRAMING = "value.format", "value.schema", "value.message", "value.framing"
FORMATS = ("avro", "protobuf")
FRAMINGS = ("none", "confluent")
_PREFIX_BYTES = 5
_PATH_MAX = 64
_KEPT = 32


class ValueFormat(NamedTuple):
    """How values are written."""

    format: str
    schema: str
    message: str = ""
    framing: str = "none"

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> ValueFormat | None:
        """The format that a topic's settings name; None where they name none."""
        found = settings.get(FORMAT, "").strip()
        if not found:
            return None
        return cls(
            found,
            settings.get(SCHEMA, ""),
            settings.get(MESSAGE, "").strip(),
            settings.get(FRAMING, "none").strip() or "none",
        )


class ReadValue(NamedTuple):
    """A value as JSON, or why it is none."""

    text: bytes | None
    problem: str = ""


class ValueReader:
    """Reads values of one format."""

    def __init__(self, form: ValueFormat) -> None:
        self.format = form.format
        self._is_framed = form.framing == "confluent"
        self._values: AvroValues | ProtobufValues
        if form.format == "avro":
            self._values = AvroValues(form.schema)
        else:
            self._values = ProtobufValues.of_base64(form.schema, form.message)

    def read(self, value: bytes) -> ReadValue:
        try:
            found: Any = self._values.decode(self._payload(value))
            return ReadValue(msgspec.json.encode(found))
        except MalformedMessageError as fault:
            return ReadValue(None, f"it is not {self.format.capitalize()} of this schema: {fault}")

    def _payload(self, value: bytes) -> memoryview:
        view = memoryview(value)
        if not self._is_framed:
            return view
        if len(value) < _PREFIX_BYTES or value[0] != 0:
            raise MalformedMessageError("it has no prefix of a schema registry")
        return view[_behind_path(view) :] if self.format == "protobuf" else view[_PREFIX_BYTES:]


def _behind_path(view: memoryview) -> int:
    """Where a message begins, after the numbers (zigzag) that say which message it is."""
    count, position = read_varint(view, _PREFIX_BYTES)
    if count & 1 or count >> 1 > _PATH_MAX:
        raise MalformedMessageError("its prefix of a schema registry is wrong")
    for _ in range(count >> 1):
        _, position = read_varint(view, position)
    return position


@lru_cache(maxsize=_KEPT)
def value_reader(form: ValueFormat) -> ValueReader:
    """The reader of a format; raises `MalformedMessageError` where its schema cannot be used."""
    return ValueReader(form)
