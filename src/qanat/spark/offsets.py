"""Offsets of many partitions, as Spark's Kafka connector writes them, and arithmetic on them. Pure.

In options, checkpoints and progress reports they are `{"topic": {"0": 23, "1": 7}}`; here they are a mapping from
`(topic, partition)` to an offset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

LATEST = -1
EARLIEST = -2
Offsets = Mapping[TopicPartition, int]


class OffsetsError(QanatError):
    """Offsets in an option or in a checkpoint that cannot be used."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a read begins or ends, from the options."""

    kind: Literal["earliest", "latest", "group", "offsets", "timestamp", "timestamps"]
    by_partition: Offsets = field(default_factory=dict)
    """Offsets or milliseconds, for `offsets` and `timestamps`."""
    timestamp: int = 0
    """Milliseconds, for `timestamp`."""
    if_too_late: Literal["error", "latest"] = "error"
    """What to do with a timestamp after the last record."""


class OffsetRange(NamedTuple):
    """Records with `start <= offset < end` of one partition; offsets in between may be missing."""

    at: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """The form of checkpoints and progress reports, in a stable order."""
    document: dict[str, dict[str, int]] = {}
    for at in sorted(offsets):
        document.setdefault(at.topic, {})[str(at.partition)] = offsets[at]
    return document


def from_json(document: object, what: str) -> dict[TopicPartition, int]:
    """The offsets in a document; `what` names its source in errors."""
    if not isinstance(document, dict):
        raise OffsetsError(f'{what} must look like {{"topic": {{"0": 23, "1": -2}}}}, not {_shown(document)}')
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            raise OffsetsError(f"{what}: topic {topic} needs an offset for each partition, not {_shown(partitions)}")
        for number, offset in partitions.items():
            at = TopicPartition(topic, _partition(number, what, topic))
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise OffsetsError(f"{what}: {at} needs a whole number, not {_shown(offset)}")
            offsets[at] = offset
    return offsets


def parse(text: str, what: str) -> dict[TopicPartition, int]:
    """The offsets in JSON."""
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise OffsetsError(f"{what} is not valid JSON: {fault}") from None
    return from_json(document, what)


def parse_assignment(text: str, what: str) -> frozenset[TopicPartition]:
    """The partitions in `{"topic": [0, 1]}`."""
    form = f'{what} must look like {{"topic": [0, 1]}}'
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise OffsetsError(f"{form}; this is not valid JSON: {fault}") from None
    if not isinstance(document, dict) or not all(isinstance(numbers, list) for numbers in document.values()):
        raise OffsetsError(f"{form}, not {_shown(document)}")
    chosen = {
        TopicPartition(topic, _partition(number, what, topic))
        for topic, numbers in document.items()
        for number in numbers
    }
    if not chosen:
        raise OffsetsError(f"{form} and name at least one partition")
    return frozenset(chosen)


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """The ranges between two positions, in order, without empty ones."""
    found = (OffsetRange(at, start[at], end[at]) for at in sorted(end) if at in start)
    return [one for one in found if one.size > 0]


def lag(start: Offsets, end: Offsets) -> int:
    """The number of offsets between two positions."""
    return sum(one.size for one in ranges(start, end))


def split(wanted: list[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Ranges split so that there are about `min_partitions` and none is larger than `max_records`."""
    pieces = wanted
    if max_records is not None:
        pieces = [piece for one in pieces for piece in _cut(one, -(-one.size // max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        total = sum(one.size for one in pieces)
        pieces = [piece for one in pieces for piece in _cut(one, max(1, round(one.size / total * min_partitions)))]
    return pieces


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = max(1, min(parts, whole.size))
    edges = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(whole.at, first, end) for first, end in pairwise(edges)]


def _partition(number: object, what: str, topic: str) -> int:
    text = str(number)
    if isinstance(number, bool) or not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise OffsetsError(f"{what}: {_shown(number)} is not a partition of topic {topic}")
    return int(text)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
