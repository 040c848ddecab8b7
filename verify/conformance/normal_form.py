"""The normal form of answers, for comparison: names for random ids, no clocks, no addresses.

- A field with its schema's default is left out; error codes go by their names.
- Ids that a broker draws (topics, producers, members, sessions) become `<topic 1>`, numbered as they appear.
- Times, hosts, ports, paths and sizes of disks become a placeholder; error messages are left out.
- Records become one line per batch. Rows of topics and groups of other conversations are dropped.
- Rows with a natural key become a mapping by it: their order means nothing to a client.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from qanat.model.error_codes import ErrorCode
from qanat.wire.batch_header import read_header
from qanat.wire.kafka.layouts import ZERO_UUID

_KEYS = (
    "group_id",
    "transactional_id",
    "key",
    "name",
    "topic",
    "topic_id",
    "resource_name",
    "partition_index",
    "index",
    "partition",
)
_MORE_KEYS = (
    "api_key",
    "node_id",
    "broker_id",
    "log_dir",
    "group_instance_id",
    "member_id",
    "producer_id",
    "user",
    "mechanism",
)
_RULES = ("DescribeAclsResource", "AclDescription", "DeleteAclsMatchingAcl")
"""Rows without an order and without a key of their own; their hosts are part of a rule."""
_LEFT_OUT = ("throttle_time_ms", "error_message", "batch_index_error_message")
_OTHERS = {"ListedGroup": "group_id", "MetadataResponseTopic": "name", "DescribeLogDirsTopic": "name"}
_OTHERS |= {"TransactionState": "transactional_id", "DescribeTopicPartitionsResponseTopic": "name"}
_BATCH_PREFIX = 12
_DRAWN_LENGTH, _UUID_LENGTH = 22, 36
"""Of ids that Kafka and we draw for members of groups of the new protocol, without a name in front."""


class Normaliser:
    """The normal form within one conversation, called `name`; remembers the names of random ids."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._drawn: dict[str, dict[object, str]] = {}
        self._rules: dict[str, Callable[[Any], Any]] = {
            "topic_id": lambda value: value if value == ZERO_UUID else self._alias("topic", value),
            "producer_id": lambda value: value if value < 0 else self._alias("producer", value),
            "session_id": lambda value: self._alias("session", value) if value else 0,
            "member_id": self._member,
            "leader": self._member,
            "cluster_id": lambda value: "<cluster>" if value else value,
            "host": lambda value: "<host>" if value else value,
            "port": lambda value: "<port>" if value > 0 else value,
            "log_dir": lambda value: "<path>",
            "total_bytes": lambda value: "<bytes>" if value > 0 else value,
            "usable_bytes": lambda value: "<bytes>" if value > 0 else value,
            "log_append_time_ms": lambda value: "<time>" if value > 0 else value,
            "records": describe_records,
            "last_timestamp": lambda value: "<time>" if value > 0 else value,
            "transaction_start_time_ms": lambda value: "<time>" if value > 0 else value,
            "partition_error_code": lambda value: ErrorCode(value).name,
            "error_code": lambda value: ErrorCode(value).name,
            "topic_config_error_code": lambda value: ErrorCode(value).name,
            "documentation": lambda value: "<text>" if value else value,
        }

    def normal(self, value: Any) -> Any:
        """Plain values for JSON."""
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, list):
            return self._rows(value)
        if isinstance(value, bytes | memoryview):
            return _readable(bytes(value))
        return value

    def introduce(self, kind: str, drawn: object) -> None:
        """Give a drawn id the next name of its kind."""
        self._alias(kind, drawn)

    def _struct(self, value: msgspec.Struct) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for field in _fields(type(value)):
            found = getattr(value, field.name)
            if isinstance(found, list):
                found = [item for item in found if not self._is_of_another(item)]
            if field.name in _LEFT_OUT or _is_default(field, found):
                continue
            rule = self._rules.get(field.name)
            if field.name == "host" and type(value).__name__ in _RULES:
                rule = None
            fields[field.name] = self.normal(found) if rule is None else self.normal(rule(found))
        return fields

    def _rows(self, items: list[Any]) -> Any:
        if not items or not isinstance(items[0], msgspec.Struct):
            return [self.normal(item) for item in items]
        if type(items[0]).__name__ in _RULES:
            return sorted((self.normal(item) for item in items), key=repr)
        key = _key_of(items)
        if key is None:
            return [self.normal(item) for item in items]
        # In the order of their names, so that ids are numbered in the same order for both brokers.
        items = sorted(items, key=lambda item: _order(getattr(item, key)))
        rows: dict[str, Any] = {}
        for item in items:
            row = self.normal(item)
            label = str(row.pop(key, self.normal(getattr(item, key))))
            rows[_unused(label, rows)] = row
        return rows

    def _is_of_another(self, item: Any) -> bool:
        name = _OTHERS.get(type(item).__name__)
        if name is None or getattr(item, name) is None:
            return False
        return self._name not in getattr(item, name) and not getattr(item, "error_code", 0)

    def _alias(self, kind: str, drawn: object) -> str:
        known = self._drawn.setdefault(kind, {})
        return known.setdefault(drawn, f"<{kind} {len(known) + 1}>")

    def _member(self, value: str) -> str:
        """Random member ids begin with the client's or the instance's name; ids of the conversation stay."""
        head, dash, tail = value[:-36], value[-37:-36], value[-36:]
        if dash == "-" and tail.count("-") == 4:
            return head + self._alias("member", value)
        is_bare = len(value) == _DRAWN_LENGTH or (len(value) == _UUID_LENGTH and value.count("-") == 4)
        return self._alias("member", value) if is_bare else value


_fields = functools.cache(msgspec.structs.fields)
"""Evaluates the types of all fields, whenever it is asked."""


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return type(value) is type(field.default) and bool(value == field.default)


def _key_of(items: list[msgspec.Struct]) -> str | None:
    """The key field of rows: the first of the known keys that is not empty everywhere."""
    names = [field.name for field in _fields(type(items[0]))]
    for name in (*_KEYS, *_MORE_KEYS):
        if name in names and any(getattr(item, name) not in (None, "", ZERO_UUID) for item in items):
            return name
    return None


def _order(value: object) -> tuple[bool, Any]:
    """Numbers by size, the rest by spelling; a conversation's own ids (one byte, repeated) before random ones."""
    if isinstance(value, bytes) and len(set(value)) == 1:
        return (False, "")
    return (isinstance(value, int), value if isinstance(value, int) else str(value))


def _unused(label: str, rows: dict[str, Any]) -> str:
    number, unused = 1, label
    while unused in rows:
        number += 1
        unused = f"{label} #{number}"
    return unused


def _readable(data: bytes) -> str:
    return data.decode("ascii") if data.isascii() and data.decode("ascii").isprintable() else data.hex()


def describe_records(value: Any) -> Any:
    """A line per batch, and for a truncated last one."""
    if value is None:
        return None
    data = b"".join(bytes(part) for part in value) if isinstance(value, list) else bytes(value)
    lines: list[str] = []
    while len(data) >= 61:
        header = read_header(data)
        size = _BATCH_PREFIX + header.batch_length
        # Where a clock or a drawn id is inside the checksum, it cannot be compared.
        is_fixed = not header.is_log_append_time and header.producer_id < 0
        crc = f", crc {header.crc:08x}" if is_fixed else ""
        lines.append(
            f"offset {header.base_offset}, {header.record_count} records, {size} bytes, epoch {header.leader_epoch}, "
            f"attributes {header.attributes:#x}, sequence {header.base_sequence}{crc}"
            + ("" if len(data) >= size else ", cut off")
        )
        data = data[size:]
    return lines
