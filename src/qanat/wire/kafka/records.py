"""Records of the internal topics in Kafka's own form, each part behind a number of two bytes.

A key starts with the kind of record, a value with its version. So
Kafka's tools read our internal topics, and we read Kafka's.

    raw_key = write_key(CONSUMER_OFFSETS, OffsetCommitKey(...))
    raw_value = write_value(CONSUMER_OFFSETS, OFFSET_COMMIT, OffsetCommitValue(...))
    kind, key = read_key(CONSUMER_OFFSETS, raw_key)  # key is None for a kind of a later Kafka
    value = read_value(CONSUMER_OFFSETS, kind, raw_value)

A deleted record has no value, so nothing is written for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.messages import record_table

_pack_number = struct.Struct(">h").pack
_unpack_number = struct.Struct(">h").unpack_from


@dataclass(frozen=True)
class RecordTopic:
    """The kinds of records in one internal topic."""

    module: str
    kinds: dict[int, tuple[str, str, int]]

    @cached_property
    def codec(self) -> ModuleType:
        """The generated module, imported on first use."""
        return import_module(f"qanat.wire.kafka.messages.{self.module}")

    @cached_property
    def kind_of(self) -> dict[str, int]:
        """The kind of record by the name of its key's class, in lower case."""
        return {key.replace("_", ""): kind for kind, (key, _, _) in self.kinds.items()}


CONSUMER_OFFSETS = RecordTopic("consumer_offsets", record_table.CONSUMER_OFFSETS)
TRANSACTION_STATE = RecordTopic("transaction_state", record_table.TRANSACTION_STATE)
SHARE_STATE = RecordTopic("share_state", record_table.SHARE_STATE)


def write_key(topic: RecordTopic, key: Any) -> bytes:
    kind = topic.kind_of[type(key).__name__.lower()]
    write = getattr(topic.codec, f"write_{topic.kinds[kind][0]}")
    return b"".join([_pack_number(kind), *write(key, 0)])


def write_value(topic: RecordTopic, kind: int, value: Any, version: int | None = None) -> bytes:
    """A value in the newest version, or in `version`."""
    _, name, newest = topic.kinds[kind]
    chosen = newest if version is None else version
    write = getattr(topic.codec, f"write_{name}")
    return b"".join([_pack_number(chosen), *write(value, chosen)])


def read_key(topic: RecordTopic, data: memoryview | bytes) -> tuple[int, Any]:
    """The kind of record and its key; None for a kind that this version does not know."""
    kind = _number(data)
    if kind not in topic.kinds:
        return kind, None
    return kind, getattr(topic.codec, f"read_{topic.kinds[kind][0]}")(data, 0, 2)


def read_value(topic: RecordTopic, kind: int, data: memoryview | bytes) -> Any:
    version = _number(data)
    _, name, newest = topic.kinds[kind]
    if not 0 <= version <= newest:
        raise MalformedMessageError(f"A {name} record has version {version}; {newest} is the newest known.")
    return getattr(topic.codec, f"read_{name}")(data, version, 2)


def _number(data: memoryview | bytes) -> int:
    if len(data) < 2:
        raise MalformedMessageError("An internal record is shorter than its version.")
    number: int = _unpack_number(data)[0]
    return number
