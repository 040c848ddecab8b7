"""What became of records that were sent: the answers of produce."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from qanat.servers.http.exchange import Reply

_ENCODE = msgspec.json.Encoder().encode


class Produced(msgspec.Struct):
    """Where a record is."""

    partition: int
    offset: int | None
    """None where `acks=none` did not wait for it."""


class ProducedOrNot(msgspec.Struct):
    """What became of one record of several: its place, or what was wrong with it."""

    partition: int | UnsetType = UNSET
    offset: int | UnsetType | None = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class ProducedMany(msgspec.Struct):
    """What became of several records, in their order."""

    results: list[ProducedOrNot]
    produced: int
    failed: int


def told_one(partition: int, offset: int) -> Reply:
    return Reply(200, b'{"partition":%d,"offset":%d}' % (partition, offset))


def told_many(results: list[ProducedOrNot], failed: int) -> Reply:
    """Answered with 207 where some records were not written."""
    return Reply(207 if failed else 200, _ENCODE(ProducedMany(results, len(results) - failed, failed)))
