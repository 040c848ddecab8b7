"""Frames of the push protocol: cut out of any stream, refused before they cost memory."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.wire.push.frames import HEADER_SIZE, LAST_ID, FrameType, PushFrame, PushFrameReader, encode_frame

LIMIT = 64 * 1024
FRAMES = st.tuples(st.sampled_from(list(FrameType)), st.integers(0, LAST_ID), st.binary(max_size=300))


def fed(reader: PushFrameReader, data: bytes, chunk: int) -> list[PushFrame]:
    found: list[PushFrame] = []
    for at in range(0, len(data), chunk):
        found += reader.received(data[at : at + chunk])
    return found


def plain(frames: list[PushFrame]) -> list[tuple[int, int, bytes]]:
    return [(frame.type, frame.id, bytes(frame.payload)) for frame in frames]


@given(frames=st.lists(FRAMES, max_size=8), chunk=st.sampled_from([1, 2, 13, 100, 10_000]))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[FrameType, int, bytes]], chunk: int
) -> None:
    reader = PushFrameReader(LIMIT)

    assert plain(fed(reader, b"".join(encode_frame(*one) for one in frames), chunk)) == frames
    assert reader.fault is None
    assert reader.held_bytes == 0


@given(frames=st.lists(FRAMES, min_size=1, max_size=4), data=st.data())
def test_every_truncation_gives_the_whole_frames_before_it(
    frames: list[tuple[FrameType, int, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(encode_frame(*one) for one in frames)
    cut = data.draw(st.integers(0, len(whole) - 1))
    reader = PushFrameReader(LIMIT)

    found = plain(reader.received(whole[:cut]))

    assert found == frames[: len(found)]
    assert plain(reader.received(whole[cut:])) == frames[len(found) :]


@given(junk=st.binary(max_size=400), chunk=st.sampled_from([1, 7, 500]))
def test_any_bytes_give_frames_or_one_fault_and_the_same_in_any_pieces(junk: bytes, chunk: int) -> None:
    at_once, in_pieces = PushFrameReader(100), PushFrameReader(100)

    assert plain(fed(at_once, junk, max(len(junk), 1))) == plain(fed(in_pieces, junk, chunk))
    assert str(at_once.fault) == str(in_pieces.fault)


@pytest.mark.parametrize("frame_type", [0, 9, 255])
def test_an_unknown_type_is_a_fault_and_nothing_follows_it(frame_type: int) -> None:
    reader = PushFrameReader(LIMIT)
    before = encode_frame(FrameType.HEARTBEAT, 1)

    found = reader.received(before + struct.pack(">BQI", frame_type, 1, 0) + before)

    assert len(found) == 1, "the frame in front of it counts"
    assert f"type {frame_type}" in str(reader.fault)
    assert reader.received(before) == []


def test_a_length_over_the_limit_is_refused_by_its_header_alone() -> None:
    reader = PushFrameReader(LIMIT)

    assert reader.received(struct.pack(">BQI", FrameType.SUBSCRIBE, 1, LIMIT + 1)) == []
    assert str(LIMIT + 1) in str(reader.fault)


def test_an_announced_length_takes_no_memory_before_its_bytes_come() -> None:
    reader = PushFrameReader(2**31)
    tracemalloc.start()
    try:
        reader.received(struct.pack(">BQI", FrameType.DATA, 1, 2**31) + b"begun")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert reader.held_bytes == HEADER_SIZE + len(b"begun")
    assert most < 10_000


def test_a_changed_limit_holds_for_the_frame_that_has_begun() -> None:
    reader = PushFrameReader(10)
    frame = encode_frame(FrameType.DATA, 1, bytes(100))
    reader.received(frame[:5])
    reader.limit(100)

    (found,) = reader.received(frame[5:])

    assert bytes(found.payload) == bytes(100)


@given(frames=st.lists(FRAMES, max_size=6), limit=st.integers(300, 1_000), data=st.data())
def test_who_takes_no_more_than_is_missing_holds_one_frame_at_most(
    frames: list[tuple[FrameType, int, bytes]], limit: int, data: st.DataObject
) -> None:
    reader, stream, found = PushFrameReader(limit), b"".join(encode_frame(*one) for one in frames), []
    while stream:
        count = data.draw(st.integers(1, reader.missing_bytes))
        found += reader.received(stream[:count])
        stream = stream[count:]
        assert reader.held_bytes < HEADER_SIZE + limit
        assert reader.held_bytes + reader.missing_bytes == HEADER_SIZE + limit

    assert plain(found) == frames


def test_a_reader_whose_limit_has_been_lowered_still_takes_bytes() -> None:
    reader = PushFrameReader(LIMIT)
    reader.received(encode_frame(FrameType.HEARTBEAT, 1, bytes(1_000))[:-1])
    reader.limit(10)

    assert reader.missing_bytes == 1
