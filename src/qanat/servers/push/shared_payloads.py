"""DATA payloads of small batches that were encoded lately: a hundred subscribers of a topic share them.

Rule: a key names the bytes that were encoded, by offset, epoch and checksum of their batch: a log that was cut and
      written again has others.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.model.ids import TopicPartition

RECORDS_MAX = 64
"""Batches with more records are encoded for each subscriber: one frame does not wait for all of them."""
BYTES_MAX = 1024 * 1024
_OVERHEAD_BYTES = 200

Payloads = list[tuple[int, bytes]]
"""Offset and payload of each record."""


class PayloadKey(NamedTuple):
    """What a payload depends on."""

    at: TopicPartition
    topic: int
    """The place of the topic in the subscriber's list; -1 for the plain dialect."""
    base_offset: int
    leader_epoch: int
    crc: int


class SharedPayloads:
    """Bounded by bytes; what was encoded first leaves first."""

    def __init__(self, max_bytes: int = BYTES_MAX) -> None:
        self._found: dict[PayloadKey, tuple[Payloads, int]] = {}
        self._left_bytes = max_bytes

    def get(self, key: PayloadKey) -> Payloads | None:
        found = self._found.get(key)
        return None if found is None else found[0]

    def put(self, key: PayloadKey, payloads: Payloads) -> None:
        if key in self._found:
            return
        size = sum(_OVERHEAD_BYTES + len(payload) for _, payload in payloads)
        self._left_bytes -= size
        self._found[key] = (payloads, size)
        while self._left_bytes < 0:
            oldest = next(iter(self._found))
            self._left_bytes += self._found.pop(oldest)[1]
