"""A sealed segment's sidecar: what Kafka's files have no place for.

It is written once the segment's bytes are on disk, so its presence means: this segment is complete, has
so many bytes, and need not be scanned after a crash. A segment without one is open, or was when the
process died.

`key_id` names the key that encrypts the segment's bytes. Sealing copies it from the file
(`files.File.key_id`), opening compares it with the file: a segment whose key is not available is refused,
never treated as damage.
"""

from __future__ import annotations

import msgspec

from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.header_digest import HeaderDigest
from qanat.model.errors import UnreadableSegmentError
from qanat.wire.crc import crc32c

FORMAT = 1


class TableChecksums(msgspec.Struct, frozen=True, kw_only=True):
    """CRC-32C of each look-up table's file."""

    offset_index: int
    time_index: int
    aborted_index: int


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a segment that no longer changes."""

    format: int = FORMAT
    size: int
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    checksums: TableChecksums
    damage: tuple[Damage, ...] = ()
    """Damage that recovery knew when it sealed the segment, and damage recorded since."""
    key_id: str | None = None
    """`files.File.key_id` at the time of sealing."""
    headers: HeaderDigest | msgspec.UnsetType = msgspec.UNSET
    """The digest of what the batches' checksums leave out; unset by older versions, and where there is damage.
    Unset, it is left out of the encoding, so that sidecars of older versions encode as they did: the catalogue's
    checksum depends on it."""

    def require_key(self, key_id: str | None, path: str) -> None:
        """Raise `UnreadableSegmentError` where the key of the segment's file is not available."""
        if key_id != self.key_id:
            raise UnreadableSegmentError(
                f"{path} says that its segment is encrypted with key {self.key_id!r}, which is not available: "
                "provide the key; the segment is left untouched"
            )


class _AnyFormat(msgspec.Struct):
    """The part that every version of a sidecar has."""

    format: int


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """One line of JSON, one line with its checksum."""
    line = msgspec.json.encode(sidecar)
    return b"%s\n%08x\n" % (line, crc32c(line))


def decode_sidecar(content: bytes, path: str) -> Sidecar | None:
    """The sidecar, or None where it is torn or damaged (the segment is scanned then).

    Raises `UnreadableSegmentError` where the content is sound but its format is too new.
    """
    line, _, checksum = content.partition(b"\n")
    if checksum != b"%08x\n" % crc32c(line):
        return None
    try:
        written_format = msgspec.json.decode(line, type=_AnyFormat).format
        if written_format > FORMAT:
            raise UnreadableSegmentError(
                f"{path} has format {written_format}, this version of qanat reads up to {FORMAT}: "
                "upgrade qanat to open it"
            )
        return msgspec.json.decode(line, type=Sidecar)
    except msgspec.DecodeError:
        return None
