"""The messages of a pipe: what a child asks of its parent, and the answer: a JSON head, then batches.

    [length of the head, 4 bytes, big-endian][head][batches of the first partition][of the second]...

Rule 1: batches are copied from the parent's log byte by byte, unless the child asks for some keys; sizes in the head
        say where each partition's begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

_LENGTH_BYTES = 4
HEAD_BYTES_MAX = 8 * 1024 * 1024


class PipeFaultError(QanatError):
    """An answer of a pipe that is none."""

    code = ErrorCode.INVALID_REQUEST


class PipePosition(Struct, frozen=True, forbid_unknown_fields=False):
    """Where a child stands in one partition."""

    topic: str
    partition: int
    offset: int
    epoch: int = -1
    """Of the record before `offset`; -1 where there is none."""
    keys: tuple[str, ...] = ()
    """The filter by which records are wanted; empty for all, byte by byte (`edge.key_filter`)."""


class PipeRequest(Struct, frozen=True):
    """What a child asks for, the most urgent partition first."""

    node: str
    partitions: list[PipePosition]
    timeout_ms: int = 0
    """How long the parent may wait for records."""
    max_bytes: int = 1024 * 1024


class PipedPartition(Struct, frozen=True):
    """What a parent says of one partition."""

    topic: str
    partition: int
    error: str = ""
    """Kafka's name of an error; empty for none."""
    log_start: int = -1
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    """Epoch and end offset where the logs diverge."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Holes of the parent's log that it has recorded."""
    size: int = 0
    next: tuple[int, int] | None = None
    """Offset and epoch with which a child goes on after these batches: it may ask for more before it has them all."""
    keys: tuple[str, ...] = ()
    """The filter that these batches have passed, here or above; empty for none."""


class PipeHead(Struct, frozen=True):
    """The head of an answer."""

    path: tuple[str, ...]
    """The parent and the nodes that its data came through."""
    partitions: tuple[PipedPartition, ...]
    revision: int = -1
    """Of the parent's metadata: while it is the one of `PipedTopics`, the parent has the same topics."""


class PipedTopic(Struct, frozen=True):
    """A topic that a parent offers."""

    topic: str
    topic_id: str
    partitions: int
    keys: tuple[str, ...] = ()
    """The filter that the parent's own copy has passed; empty for none."""


class PipedTopics(Struct, frozen=True):
    """The topics of a parent."""

    path: tuple[str, ...]
    topics: tuple[PipedTopic, ...]
    revision: int = -1
    """Of the parent's metadata; -1 where it does not say."""


_HEADS = msgspec.json.Decoder(PipeHead)


def encode_answer(head: PipeHead, records: Sequence[bytes | memoryview]) -> bytes:
    """The bytes of an answer."""
    encoded = msgspec.json.encode(head)
    return b"".join((len(encoded).to_bytes(_LENGTH_BYTES, "big"), encoded, *records))


def decode_head(view: memoryview) -> tuple[PipeHead, int]:
    """The head of an answer, of which this is the whole or the beginning, and where its batches begin."""
    length = int.from_bytes(view[:_LENGTH_BYTES], "big")
    if len(view) < _LENGTH_BYTES or length > min(HEAD_BYTES_MAX, len(view) - _LENGTH_BYTES):
        raise PipeFaultError("the answer of the parent ends in its head")
    try:
        return _HEADS.decode(view[_LENGTH_BYTES : _LENGTH_BYTES + length]), _LENGTH_BYTES + length
    except msgspec.MsgspecError as fault:
        raise PipeFaultError(f"the answer of the parent has no head: {fault}") from None


def decode_answer(body: bytes) -> tuple[PipeHead, list[memoryview]]:
    """The head, and the batches of each of its partitions."""
    view = memoryview(body)
    head, position = decode_head(view)
    records: list[memoryview] = []
    for one in head.partitions:
        if not 0 <= one.size <= len(view) - position:
            raise PipeFaultError(f"the answer of the parent ends in the batches of {one.topic}-{one.partition}")
        records.append(view[position : position + one.size])
        position += one.size
    return head, records
