"""The aborted-transaction index: which offsets a read_committed consumer must skip.

Kafka's `.txnindex` format: entries of version 2, producer id 8, first offset 8,
last offset 8 and the last stable offset at that time 8, in the order of the
abort markers. It belongs to the segment that holds the marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from qanat.log.files import Buffer

_VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One producer's aborted records lie between these offsets (both inclusive)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_aborted(content: Buffer) -> list[AbortedTransaction]:
    """The entries of a file whose checksum has been verified."""
    return [AbortedTransaction(*entry[1:]) for entry in _ENTRY.iter_unpack(content)]
