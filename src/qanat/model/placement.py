"""Placement of groups and transactional ids in the partitions of internal topics, the same as Kafka's.

The partition's leader is the coordinator.
"""

from __future__ import annotations

_INT32_MIN = -(2**31)


def coordinator_partition(key: str, partition_count: int) -> int:
    """Java's `Utils.abs(key.hashCode()) % partitions`."""
    return _java_abs(_java_string_hash(key)) % partition_count


def _java_string_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value


def _java_abs(number: int) -> int:
    """Kafka's `Utils.abs`: the smallest integer has no positive twin and counts as 0."""
    return 0 if number == _INT32_MIN else abs(number)
