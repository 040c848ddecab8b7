"""Kafka's checkpoint files, byte for byte; torn or strange ones say nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.log.directories import checkpoints
from qanat.log.directories.checkpoints import (
    HeaderCheckpoint,
    decode_files,
    decode_offsets,
    encode_files,
    encode_offsets,
)
from qanat.log.recovery.log_recovery import Checkpoint
from qanat.log.segments.header_digest import HeaderDigest, HeaderPoint
from qanat.model.ids import TopicPartition
from qanat.wire.crc import crc32c

A0, A12, DASHED = TopicPartition("a", 0), TopicPartition("a", 12), TopicPartition("x-1.y", 3)
POINT = HeaderPoint(40, 50, 1234, HeaderDigest(2**64 - 1, True))

topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))


def test_the_format_is_kafkas() -> None:
    assert encode_offsets({}) == b"0\n0\n"
    assert encode_offsets({A0: 5, DASHED: 0, A12: 2**63 - 1}) == b"0\n3\na 0 5\nx-1.y 3 0\na 12 9223372036854775807\n"


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=5))
def test_what_was_written_is_read(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_c62_a_file_torn_at_any_length_counts_as_empty() -> None:
    content = encode_offsets({A0: 1234, A12: 99, DASHED: 10})
    for length in range(len(content)):
        assert decode_offsets(content[:length]) == {}, content[:length]
    assert len(decode_offsets(content)) == 3


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\n",
        b"0",
        b"1\n1\na 0 5\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0 5\na 1 6\n",
        b"0\n2\na 0 5\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 5 6\n",
        b"0\n1\na zero 5\n",
        b"0\n1\na 0 5\n\n",
        b"0\n1\n\xff 0 5\n",
        b"0\r\n1\r\na 0 5\r\n",
        b"\0" * 100,
    ],
)
def test_whatever_is_not_of_the_format_counts_as_empty(content: bytes | None) -> None:
    assert decode_offsets(content) == {}


@given(st.binary(max_size=60))
def test_garbage_never_raises(content: bytes) -> None:
    decode_offsets(content)


def test_one_partitions_hints_come_from_four_files() -> None:
    hints = {A0: Checkpoint(1, 2, 3, 4, POINT), A12: Checkpoint(5, 6, 7, 8)}
    contents = encode_files(hints)

    assert list(contents) == [
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "header-digest-checkpoint",
    ]
    assert decode_files(contents) == hints


def test_negative_offsets_count_for_nothing() -> None:
    assert decode_files({name: encode_offsets({A0: -1}) for name in checkpoints.FILES}) == {A0: Checkpoint()}


def test_points_are_believed_beside_the_recovery_points_they_were_written_with() -> None:
    contents = encode_files({A0: Checkpoint(1, 2, 3, 4, POINT)})

    # An earlier version has written since: it does not know our file, and may have cut the log.
    later = contents | {checkpoints.RECOVERY_POINT: encode_offsets({A0: 5})}
    assert decode_files(later) == {A0: Checkpoint(1, 5, 3, 4)}
    # Only one file has changed: nobody writes one without the others.
    rotten = contents | {checkpoints.LOG_START: encode_offsets({A0: 9})}
    assert decode_files(rotten) == {A0: Checkpoint(0, 2, 3, 4, POINT)}
    assert decode_files(contents | {checkpoints.CLEANED: None}) == {A0: Checkpoint(1, 2, 3, 0, POINT)}
    # Written by a version that knows no points.
    assert decode_files(contents | {checkpoints.HEADERS: None}) == {A0: Checkpoint(1, 2, 3, 4)}


def test_points_without_a_checksum_of_every_file_are_not_believed() -> None:
    contents = encode_files({A0: Checkpoint(1, 2, 3, 4, POINT)})
    written = HeaderCheckpoint.decode(contents[checkpoints.HEADERS])

    fewer = HeaderCheckpoint(written.checksums[:3], written.points).encode()
    assert decode_files(contents | {checkpoints.HEADERS: fewer}) == {A0: Checkpoint(1, 2, 3, 4)}


def test_a_header_checkpoint_is_believed_whole_or_not_at_all() -> None:
    points = {A0: POINT, DASHED: HeaderPoint(0, 2**63 - 1, 2**31, HeaderDigest(0, False))}
    written = HeaderCheckpoint((1, 2, 3, 2**32 - 1), points)
    content = written.encode()

    assert HeaderCheckpoint.decode(content) == written
    assert HeaderCheckpoint.decode(None) == HeaderCheckpoint.decode(b"") == HeaderCheckpoint()
    for length in range(len(content)):
        assert HeaderCheckpoint.decode(content[:length]) == HeaderCheckpoint()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        assert HeaderCheckpoint.decode(bytes(flipped)) == HeaderCheckpoint()


@pytest.mark.parametrize("text", [b"1\n00000001\n", b"0\n00000001\na 0 1\n", b"0\n", b"0\nrubbish\n"])
def test_a_header_checkpoint_of_another_version_or_form_is_empty(text: bytes) -> None:
    assert HeaderCheckpoint.decode(b"%s%08x\n" % (text, crc32c(text))) == HeaderCheckpoint()
