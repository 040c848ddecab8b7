"""Kafka's offset checkpoints: one line per partition, `topic partition offset`, in a file of the data directory.

They are hints that save work after a crash; none is believed over a log
(`recovery.Checkpoint` says what each is for). A file that is torn counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import astuple

from qanat.log.recovery import Checkpoint
from qanat.model.ids import TopicPartition

LOG_START = "log-start-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
FILES = (LOG_START, RECOVERY_POINT, HIGH_WATERMARK, CLEANED)
"""In the order of the fields of `recovery.Checkpoint`."""

_VERSION = "0"

Offsets = Mapping[TopicPartition, int]


def encode_offsets(offsets: Offsets) -> bytes:
    """The file's text."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{at.topic} {at.partition} {offset}" for at, offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(content: bytes | None) -> dict[TopicPartition, int]:
    """The offsets in a file; none where it is missing, torn or not of this format."""
    try:
        version, count, *lines = (content or b"").decode("ascii").removesuffix("\n").split("\n")
        fields = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in fields}
    except ValueError:
        return {}
    # A last line without its end may be the first digits of a larger number.
    is_whole = content is not None and content.endswith(b"\n") and count == str(len(lines)) == str(len(offsets))
    return offsets if version == _VERSION and is_whole else {}


def checkpoint_of(at: TopicPartition, files: Mapping[str, Offsets]) -> Checkpoint:
    """What the four files say of one partition; negative offsets count for nothing."""
    return Checkpoint(*(max(files[name].get(at, 0), 0) for name in FILES))


def encode_files(hints: Mapping[TopicPartition, Checkpoint]) -> dict[str, bytes]:
    """The content of the four files, by name."""
    rows = {at: astuple(hint) for at, hint in hints.items()}
    return {name: encode_offsets({at: row[column] for at, row in rows.items()}) for column, name in enumerate(FILES)}
