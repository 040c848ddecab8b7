"""Checkpoints: Kafka's offset checkpoints, one line per partition, `topic partition offset`, in the data directory.

They are hints that save work after a crash; the log always wins over them
(`log_recovery.Checkpoint` says what each is for). A torn file counts as empty.

One file is our own: the header digest of each log's last segment up to its recovery point, and the
checksums of the other files.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import astuple

from qanat.log.recovery.log_recovery import Checkpoint
from qanat.log.segments.header_digest import HeaderDigest, HeaderPoint
from qanat.model.ids import TopicPartition
from qanat.wire.crc import crc32c

LOG_START = "log-start-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
FILES = (LOG_START, RECOVERY_POINT, HIGH_WATERMARK, CLEANED)
"""In the order of the fields of `log_recovery.Checkpoint`."""
HEADERS = "header-digest-checkpoint"

_VERSION = "0"
_CHECKSUM_SIZE = 9

Offsets = Mapping[TopicPartition, int]


def encode_offsets(offsets: Offsets) -> bytes:
    """The file's text."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{at.topic} {at.partition} {offset}" for at, offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(content: bytes | None) -> dict[TopicPartition, int]:
    """The offsets in a file; none where it is missing, torn or not of this format."""
    text = content or b""
    try:
        version, count, *lines = text.decode("ascii").removesuffix("\n").split("\n")
        fields = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in fields}
    except ValueError:
        return {}
    # A last line without its end may be the first digits of a larger number.
    is_whole = text.endswith(b"\n") and count == str(len(lines)) == str(len(offsets))
    return offsets if version == _VERSION and is_whole else {}


class HeaderCheckpoint(Struct, frozen=True):
    """Our own file: the checksums of Kafka's files that were written with it, and a point for each partition."""

    checksums: tuple[int, ...] = ()
    points: dict[TopicPartition, HeaderPoint] = {}

    def encode(self) -> bytes:
        """The file's text; its last line is the checksum of the lines before it."""
        lines = [
            f"{at.topic} {at.partition} {point.base_offset} {point.next_offset} {point.size} "
            f"{point.headers.digest:016x} {point.headers.is_dense:d}"
            for at, point in self.points.items()
        ]
        checksums = " ".join(f"{checksum:08x}" for checksum in self.checksums)
        text = "".join(f"{line}\n" for line in (_VERSION, checksums, *lines)).encode()
        return b"%s%08x\n" % (text, crc32c(text))

    @staticmethod
    def decode(content: bytes | None) -> HeaderCheckpoint:
        """The content of a file; empty where it is missing, torn, damaged or not of this format."""
        text, checksum = (content or b"")[:-_CHECKSUM_SIZE], (content or b"")[-_CHECKSUM_SIZE:]
        if checksum != b"%08x\n" % crc32c(text):
            return HeaderCheckpoint()
        try:
            version, checksums, *lines = text.decode("ascii").splitlines()
            if version != _VERSION:
                return HeaderCheckpoint()
            return HeaderCheckpoint(tuple(int(one, 16) for one in checksums.split()), dict(map(_point, lines)))
        except ValueError:
            return HeaderCheckpoint()


def _point(line: str) -> tuple[TopicPartition, HeaderPoint]:
    topic, partition, base_offset, next_offset, size, digest, is_dense = line.split()
    headers = HeaderDigest(int(digest, 16), is_dense == "1")
    return TopicPartition(topic, int(partition)), HeaderPoint(int(base_offset), int(next_offset), int(size), headers)


def decode_files(contents: Mapping[str, bytes | None]) -> dict[TopicPartition, Checkpoint]:
    """The checkpoints of all files together, by partition; negative offsets are ignored.

    Points count only beside the very recovery points that they were written with: a version that does not know them
    may have truncated and written the logs since. Then the other files must be of the same time, too: one that is not
    is damaged, and counts as lost.
    """
    own = HeaderCheckpoint.decode(contents.get(HEADERS))
    checksums = dict(zip(FILES, own.checksums, strict=False))
    sound = [name for name, checksum in checksums.items() if crc32c(contents.get(name) or b"") == checksum]
    is_own_time = len(checksums) == len(FILES) and RECOVERY_POINT in sound
    points = own.points if is_own_time else {}
    believed = sound if is_own_time else FILES
    offsets = [decode_offsets(contents.get(name) if name in believed else None) for name in FILES]
    known = dict.fromkeys((*(at for part in offsets for at in part), *points))
    return {at: _checkpoint([max(part.get(at, 0), 0) for part in offsets], points.get(at)) for at in known}


def _checkpoint(offsets: list[int], point: HeaderPoint | None) -> Checkpoint:
    log_start_offset, recovery_point, high_watermark, cleaned_offset = offsets
    return Checkpoint(log_start_offset, recovery_point, high_watermark, cleaned_offset, point)


def encode_files(hints: Mapping[TopicPartition, Checkpoint]) -> dict[str, bytes]:
    """The content of the files, by name, in the order of writing: ours last."""
    rows = {at: astuple(hint) for at, hint in hints.items()}
    files = {name: encode_offsets({at: row[column] for at, row in rows.items()}) for column, name in enumerate(FILES)}
    points = {at: hint.headers for at, hint in hints.items() if hint.headers is not None}
    checksums = tuple(crc32c(content) for content in files.values())
    return {**files, HEADERS: HeaderCheckpoint(checksums, points).encode()}
