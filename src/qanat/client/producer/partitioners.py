"""The partition of a record: by its key, or where a batch is open anyway.

Records without a key go to one partition until its batch leaves, then to the next: batches are larger so, and all
partitions get as many (KIP-480).
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

from qanat.model.errors import InvalidSettingError
from qanat.wire.key_hash import partition_of

Partitioner = Callable[[str, bytes | None, int], int]
"""Topic, key and number of partitions to a partition; -1 for the partition that is open anyway."""

STICKY = -1


def murmur2(topic: str, key: bytes | None, count: int) -> int:
    """As Java: by key; without one, sticky."""
    return STICKY if key is None else partition_of(key, count)


def sticky(topic: str, key: bytes | None, count: int) -> int:
    """Every record where a batch is open, whatever its key."""
    return STICKY


def consistent(topic: str, key: bytes | None, count: int) -> int:
    """As librdkafka's `consistent`: CRC-32 of the key; all records without a key in one partition."""
    return zlib.crc32(key or b"") % count


class RoundRobin:
    """The partitions in turn, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, count: int) -> int:
        found = self._next.get(topic)
        if found is None:
            found = random.randrange(count)
        self._next[topic] = found + 1
        return found % count


def partitioner_of(setting: object) -> Partitioner:
    """The partitioner that a setting names, or the function itself."""
    if callable(setting):
        function: Any = setting
        return function  # type: ignore[no-any-return]
    match setting:
        case "murmur2" | "murmur2_random" | "default" | None:
            return murmur2
        case "sticky":
            return sticky
        case "round_robin":
            return RoundRobin()
        case "consistent":
            return consistent
        case _:
            raise InvalidSettingError(
                f"partitioner is {setting!r}, but must be murmur2, sticky, round_robin, consistent, or a function"
            )
