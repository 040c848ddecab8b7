"""Dead letters: the headers that say where a record was and why it was given up.

Broker, Spark and client write one dialect: the names of KIP-1191, and one of ours for the timestamp, which a topic with
`message.timestamp.type=LogAppendTime` would replace. The headers follow the record's own ones, so that key, value,
headers and timestamp can be restored exactly.

Rule 1: only the last run of these headers counts. Whoever produced the record cannot forge them, and a letter of a
        letter is restored as the letter that it was.
Rule 2: letters of former releases (`x-original-*`, Spark) are read, never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Header = tuple[str, bytes | None]

TOPIC = "__dlq.errors.topic"
PARTITION = "__dlq.errors.partition"
OFFSET = "__dlq.errors.offset"
GROUP = "__dlq.errors.group"
DELIVERY_COUNT = "__dlq.errors.delivery.count"
MESSAGE = "__dlq.errors.message"
TIMESTAMP = "__dlq.errors.timestamp"

_NAMES = frozenset({TOPIC, PARTITION, OFFSET, GROUP, DELIVERY_COUNT, MESSAGE, TIMESTAMP})
_FORMER = {
    "x-original-topic": TOPIC,
    "x-original-partition": PARTITION,
    "x-original-offset": OFFSET,
    "x-exception": MESSAGE,
}
_DIGITS_MAX = 19


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a dead letter comes from, and why it is one; None for what its writer did not know."""

    topic: str
    partition: int
    offset: int
    message: str = ""
    group: str | None = None
    delivery_count: int | None = None
    timestamp_ms: int | None = None

    def headers(self) -> tuple[Header, ...]:
        """The headers that follow the record's own ones."""
        found: list[Header] = [
            (TOPIC, self.topic.encode()),
            (PARTITION, str(self.partition).encode()),
            (OFFSET, str(self.offset).encode()),
        ]
        if self.group is not None:
            found.append((GROUP, self.group.encode()))
        if self.delivery_count is not None:
            found.append((DELIVERY_COUNT, str(self.delivery_count).encode()))
        found.append((MESSAGE, self.message.encode("utf-8", "backslashreplace")))
        if self.timestamp_ms is not None:
            found.append((TIMESTAMP, str(self.timestamp_ms).encode()))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Letter:
    """The headers of a dead letter, parsed."""

    origin: Origin
    headers: tuple[Header, ...]
    """The record's own headers."""


def parse_letter(headers: Sequence[Header]) -> Letter | None:
    """Origin and own headers of a dead letter; None where the headers do not say where it comes from."""
    return _parsed(headers, {name: name for name in _NAMES}) or _parsed(headers, _FORMER)


def _parsed(headers: Sequence[Header], names: dict[str, str]) -> Letter | None:
    found: dict[str, bytes] = {}
    end = len(headers)
    while end:
        name, value = headers[end - 1]
        known = names.get(name)
        if known is None or known in found or value is None:
            break
        found[known] = value
        end -= 1
    topic, partition, offset = _text(found.get(TOPIC)), _number(found.get(PARTITION)), _number(found.get(OFFSET))
    if not topic or partition is None or offset is None:
        return None
    origin = Origin(
        topic,
        partition,
        offset,
        _text(found.get(MESSAGE)) or "",
        _text(found.get(GROUP)),
        _number(found.get(DELIVERY_COUNT)),
        _number(found.get(TIMESTAMP)),
    )
    return Letter(origin, tuple(headers[:end]))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _number(value: bytes | None) -> int | None:
    is_number = value is not None and value.isdigit() and len(value) <= _DIGITS_MAX
    return int(value) if is_number and value is not None else None
