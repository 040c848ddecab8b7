"""Results of produced records: the answers of produce."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from qanat.servers.http.reply import Reply

_ENCODE = msgspec.json.Encoder().encode


class Produced(msgspec.Struct):
    """Where a record is."""

    partition: int
    offset: int | None
    """None with `acks=none`."""


class ProducedOrNot(msgspec.Struct):
    """The result of one record of several: its place, or its problem."""

    partition: int | UnsetType = UNSET
    offset: int | UnsetType | None = UNSET
    problem: dict[str, Any] | UnsetType = UNSET


class ProducedMany(msgspec.Struct):
    """The results of several records, in their order."""

    results: list[ProducedOrNot]
    produced: int
    failed: int


def one_reply(partition: int, offset: int) -> Reply:
    return Reply(200, b'{"partition":%d,"offset":%d}' % (partition, offset))


def many_reply(results: list[ProducedOrNot], failed: int) -> Reply:
    """The answer for several records: 207 where some were not written."""
    return Reply(207 if failed else 200, _ENCODE(ProducedMany(results, len(results) - failed, failed)))
