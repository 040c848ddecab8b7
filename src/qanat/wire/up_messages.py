"""The messages of the way up: what a child asks of its parent, and what the parent answers.

A request with records is a JSON head and bytes of an upload, in the form of a pipe's answer:

    [length of the head, 4 bytes, big-endian][head][bytes]

Rule 1: an upload's name says what is in it, so that a child that starts again goes on where its upload ends.
"""

from __future__ import annotations

import hashlib
import re

import msgspec
from msgspec import Struct

from qanat.model.ids import KEPT_OFFSET
from qanat.wire.batch_header import Buffer
from qanat.wire.pipe_answer import PipeFaultError

_LENGTH_BYTES = 4
HEAD_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")
_PARTITION_MAX = 1_000_000
PREFIX = "qanat-edge-"


class UpStream(Struct, frozen=True):
    """One partition of an outbox, and where its records go. Its mark belongs to exactly this."""

    instance: str
    """The child's cluster id."""
    outbox_id: str
    """The id of the child's topic: another topic of the same name begins anew."""
    partition: int
    target: str
    """The parent's topic."""

    @property
    def name(self) -> str:
        """The transactional id under which the parent appends, and the group that keeps the mark."""
        return f"{PREFIX}{self.instance}-{self.outbox_id}-{self.partition}"

    @property
    def folder(self) -> str:
        """Where the parent stages uploads."""
        return f"edge-{self.instance}".replace("_", "-")

    def problem(self) -> str | None:
        """What is wrong with it."""
        for what, name in (("instance", self.instance), ("outbox_id", self.outbox_id)):
            if not _NAME.fullmatch(name):
                return f"{what} should have 1 to 64 letters, digits, - or _"
        if not 0 <= self.partition <= _PARTITION_MAX:
            return f"partition should be 0 to {_PARTITION_MAX}"
        return None


class BeginUp(Struct, frozen=True, omit_defaults=True):
    """A process of a child has started: who was there before is fenced."""

    stream: UpStream
    base: int
    """Where the outbox began when it was bound to the parent's topic: the mark, where there is none yet."""
    is_resent: bool = False
    """The child's operator has decided: whatever the mark is, records come from `base` on."""
    settled: int = -1
    """The mark that this parent had when the child came back: another one has the records from there to `base`."""


class UpBegun(Struct, frozen=True):
    """What the parent has of an outbox."""

    topic_id: str
    end: int
    epoch: int
    """Names the process of the child from here on."""


class NamedUpload(Struct, frozen=True):
    """The upload is complete: append it, records `[first, end)` of the outbox."""

    topic_id: str
    first: int
    end: int
    epoch: int
    records: int
    """How many there are to append; offsets of markers and aborted records count as well in `end`."""


class UpRecords(Struct, frozen=True):
    """Bytes of an upload, and perhaps its end."""

    stream: UpStream
    file: str
    position: int
    named: NamedUpload | None = None


class UpTaken(Struct, frozen=True):
    """What became of them."""

    size: int
    """Bytes of the upload that the parent has."""
    mark: int | None = None
    """The parent has durably appended everything before; None where nothing was named."""


def upload_name(content: Buffer) -> str:
    """The name of an upload inside its folder."""
    return hashlib.sha256(content).hexdigest()[:32]


def encode_records(head: UpRecords, content: Buffer) -> bytes:
    """The bytes of a request."""
    encoded = msgspec.json.encode(head)
    return b"".join((len(encoded).to_bytes(_LENGTH_BYTES, "big"), encoded, content))


def decode_records(body: bytes) -> tuple[UpRecords, memoryview]:
    """The head, and the bytes of the upload."""
    view = memoryview(body)
    length = int.from_bytes(view[:_LENGTH_BYTES], "big")
    if len(view) < _LENGTH_BYTES or length > min(HEAD_BYTES_MAX, len(view) - _LENGTH_BYTES):
        raise PipeFaultError("the body ends in its head: 4 bytes with its length, the head in JSON, then the records")
    try:
        head = _HEADS.decode(view[_LENGTH_BYTES : _LENGTH_BYTES + length])
    except msgspec.MsgspecError as fault:
        raise PipeFaultError(f"the body has no head: {fault}") from None
    return head, view[_LENGTH_BYTES + length :]


_HEADS = msgspec.json.Decoder(UpRecords)

# The mark, as the metadata of a committed offset


def mark_note(topic_id: str, first: int, end: int) -> str:
    """The metadata of a mark: it never expires, and belongs to one topic of the parent."""
    return f"{KEPT_OFFSET};topic={topic_id};first={first};end={end}"


def marked_topic(note: str) -> str | None:
    """The id of the topic that a mark belongs to; None where the metadata is none of a mark."""
    kept, _, rest = note.partition(";")
    if kept != KEPT_OFFSET or not rest.startswith("topic="):
        return None
    return rest.removeprefix("topic=").partition(";")[0]
