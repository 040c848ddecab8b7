"""Frames cut out of a stream of bytes, however it arrives."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.errors import MalformedMessageError
from qanat.wire.frame_buffers import FrameBuffers
from qanat.wire.frames import FrameReader

LIMIT = 1024 * 1024


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(reader: FrameReader, data: bytes, chunk: int) -> list[bytes]:
    """Hand over the bytes as a transport would: never more than the buffer takes."""
    frames: list[bytes] = []
    while data:
        buffer = reader.buffer()
        assert len(buffer) > 0, "a transport must always have room to write to"
        count = min(len(buffer), chunk, len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


@given(
    payloads=st.lists(st.binary(max_size=300) | st.integers(60_000, 140_000).map(bytes), max_size=6),
    chunk=st.sampled_from([1, 3, 100, 65_536, 1_000_000]),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(payloads: list[bytes], chunk: int) -> None:
    if chunk < 100 and sum(map(len, payloads)) > 2_000:
        chunk = 997  # The same, in time.

    reader = FrameReader(LIMIT)

    assert feed(reader, framed(*payloads), chunk) == payloads
    assert reader.is_idle


def test_a_frame_handed_out_does_not_change_when_more_arrives() -> None:
    reader = FrameReader(LIMIT)
    buffer = reader.buffer()
    first = framed(b"first")
    buffer[: len(first)] = first
    (frame,) = reader.received(len(first))

    feed(reader, framed(b"x" * 60_000, b"y" * 200_000), 10_000)

    assert bytes(frame) == b"first"
    assert not frame.readonly, "whoever takes it may set a batch's offset in it"


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1, 0x16030100])
def test_a_length_that_is_not_accepted_is_refused_before_anything_is_allocated(length: int) -> None:
    with pytest.raises(MalformedMessageError, match=str(length)):
        feed(FrameReader(LIMIT), struct.pack(">i", length), 4)


def test_the_largest_frame_is_accepted_and_one_byte_more_is_not() -> None:
    assert feed(FrameReader(1000), framed(b"z" * 1000), 7) == [b"z" * 1000]
    with pytest.raises(MalformedMessageError):
        feed(FrameReader(1000), framed(b"z" * 1001), 7)


def test_a_raised_limit_counts_from_the_next_frame_on() -> None:
    reader = FrameReader(10)
    reader.limit(100)

    assert feed(reader, framed(b"z" * 100), 100) == [b"z" * 100]


def received(reader: FrameReader, payload: bytes) -> memoryview:
    """One large frame as it was handed out."""
    data = framed(payload)
    while True:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        if frames := reader.received(count):
            return frames[0]


def test_the_room_of_a_large_frame_is_used_again_once_nobody_looks_at_it() -> None:
    made: list[int] = []

    def make(size: int) -> bytearray:
        made.append(size)
        return bytearray(size)

    reader = FrameReader(LIMIT, FrameBuffers(make))

    for number in range(10):
        assert received(reader, bytes([number]) * 200_000) == bytes([number]) * 200_000

    assert len(made) == 1


def test_a_part_of_a_large_frame_keeps_the_whole_frame_from_being_written_over() -> None:
    rooms = FrameBuffers()
    held = [received(FrameReader(LIMIT, rooms), bytes([number]) * 100_000)[10:20] for number in range(20)]

    assert [bytes(part) for part in held] == [bytes([number]) * 10 for number in range(20)]


def test_a_frame_beyond_the_usual_size_gets_a_room_of_its_own_size_that_is_not_kept() -> None:
    made: list[int] = []

    def make(size: int) -> bytearray:
        made.append(size)
        return bytearray(size)

    reader = FrameReader(8 * LIMIT, FrameBuffers(make))
    for _ in range(2):
        received(reader, bytes(5 * LIMIT))

    assert made == [5 * LIMIT, 5 * LIMIT]
