"""A sealed segment's sidecar: what Kafka's files have no place for.

It is written once the segment's bytes are certainly on disk, so its presence
says: this segment is complete, so many bytes, and need not be scanned after a
crash. A segment without one is still open, or was when the process died.

`key_id` names the key that the segment's bytes are encrypted with. It comes from the
file (`files.File.key_id`) when the segment is sealed and is compared with it when it is
opened: a segment whose key is not at hand is refused, never taken for damage.
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
    """What is known of a segment that will not change any more."""

    format: int = FORMAT
    size: int
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    checksums: TableChecksums
    damage: tuple[Damage, ...] = ()
    """What was already unreadable when the segment was sealed (by recovery)."""
    key_id: str | None = None
    """As `files.File.key_id` was when the segment was sealed."""
    headers: HeaderDigest | msgspec.UnsetType = msgspec.UNSET
    """What the batches' checksums leave out; unset by versions that did not know it, and where there is damage.

    Left out of the encoding then, so that what older versions wrote is encoded as they did: the catalogue's checksum
    depends on it."""

    def require_key(self, key_id: str | None, path: str) -> None:
        """Raise `UnreadableSegmentError` where whoever opens the segment's file has not the key to it."""
        if key_id != self.key_id:
            raise UnreadableSegmentError(
                f"{path} says that its segment is encrypted with key {self.key_id!r}, which is not available: "
                "provide the key; the segment is left untouched"
            )


class _AnyFormat(msgspec.Struct):
    """What every version of a sidecar says, whatever else it holds."""

    format: int


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """One line of JSON, one line with its checksum."""
    line = msgspec.json.encode(sidecar)
    return b"%s\n%08x\n" % (line, crc32c(line))


def decode_sidecar(content: bytes, path: str) -> Sidecar | None:
    """The sidecar, or None where it is torn or rotten (the segment is scanned then).

    Raises `UnreadableSegmentError` where the content is sound but not for us.
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
