"""Commits of a lake, and the contents that they add up to. Pure.

A commit names files that are added and removed, and stores what a restore needs besides records: topics with their
settings and partitions, and the positions of consumer groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct, field

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import Offsets, from_json, to_json

FORMAT = "qanat-archive"
VERSION = 1

Cause = Literal["batch", "state", "merge"]
"""The cause of a commit: new records; changes of topics or groups only; a merge of small files."""
Positions = dict[str, dict[str, int]]
"""`{"topic": {"0": 23}}`, as in Spark's offsets."""


class Head(Struct, frozen=True):
    """The identity of a lake, written once."""

    id: str
    cluster: str
    """The id of the archived cluster."""
    created_at: int
    format: str = FORMAT
    version: int = VERSION


class LakeFile(Struct, frozen=True):
    """A Parquet file with records of one partition, in the order of their offsets."""

    path: str
    topic: str
    partition: int
    first: int
    """The first offset in it."""
    last: int
    rows: int
    bytes: int
    earliest: int
    """The smallest timestamp in it, in milliseconds since 1970."""
    latest: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TopicState(Struct, frozen=True):
    """A topic without its records."""

    id: str
    """The topic's id, in hexadecimal digits: a topic of the same name with another id is another topic."""
    partitions: int
    replication: int = 1
    settings: dict[str, str] = {}
    """The topic's own settings, without defaults."""


class Commit(Struct, frozen=True, omit_defaults=True):
    """One step of a lake."""

    number: int
    cause: Cause
    taken_at: int
    """When topics and groups were read, in milliseconds since 1970."""
    start: Positions = {}
    """First offsets of partitions that are not archived from their first record."""
    add: list[LakeFile] = []
    remove: list[str] = []
    topics: dict[str, TopicState] = {}
    groups: dict[str, Positions] = {}


class Contents(Struct):
    """The contents of a lake: the sum of its commits."""

    number: int = -1
    """The number of the last commit."""
    files: dict[str, LakeFile] = {}
    positions: Positions = {}
    """The offset after the last record of each partition."""
    topics: dict[str, TopicState] = field(default_factory=dict)
    """Every topic ever archived, in its last state."""
    groups: dict[str, Positions] = field(default_factory=dict)
    taken_at: int = 0

    def apply(self, commit: Commit) -> None:
        """Apply the next commit."""
        assert commit.number == self.number + 1
        self.number, self.taken_at = commit.number, commit.taken_at
        for topic, offsets in commit.start.items():
            self.positions[topic] = {**offsets, **self.positions.get(topic, {})}
        for path in commit.remove:
            self.files.pop(path, None)
        for one in commit.add:
            self.files[one.path] = one
            known = self.positions.setdefault(one.topic, {})
            known[str(one.partition)] = max(known.get(str(one.partition), 0), one.last + 1)
        self.topics = {**self.topics, **commit.topics}
        self.groups = commit.groups

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        return from_json(self.positions, "the lake")


def positions_of(offsets: Offsets) -> Positions:
    return to_json(offsets)


def encode(value: Head | Commit | Contents) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def by_partition(files: Iterable[LakeFile]) -> dict[TopicPartition, list[LakeFile]]:
    """The files of each partition, in the order of their offsets."""
    found: dict[TopicPartition, list[LakeFile]] = {}
    for one in sorted(files, key=lambda one: (one.topic, one.partition, one.first, one.last)):
        found.setdefault(one.at, []).append(one)
    return found
