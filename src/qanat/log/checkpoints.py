"""Kafka's offset checkpoints: one line per partition, `topic partition offset`, in a file of the data directory.

They are hints that save work after a crash; none is believed over a log
(`recovery.Checkpoint` says what each is for). A file that is torn counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from qanat.log.recovery import Checkpoint
from qanat.model.ids import TopicPartition

LOG_START = "log-start-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"

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
        version, count, *lines = (content or b"").decode("ascii").splitlines()
        fields = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in fields}
    except ValueError:
        return {}
    return offsets if version == _VERSION and count == str(len(offsets)) else {}


def checkpoint_of(at: TopicPartition, files: Mapping[str, Offsets]) -> Checkpoint:
    """What the four files say of one partition; negative offsets count for nothing."""

    def offset(name: str) -> int:
        return max(files[name].get(at, 0), 0)

    return Checkpoint(offset(LOG_START), offset(RECOVERY_POINT), offset(HIGH_WATERMARK), offset(CLEANED))
