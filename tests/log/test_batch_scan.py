"""Reading bytes without believing them: every cut, every flipped bit, and where to go on after damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import batch, examples

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.files import File
from qanat.log.segments.batch_scan import find_damage, next_sound_batch, read_batches, readable_batch, sound_batches
from qanat.wire.batch_header import BatchHeader, read_header

THREE = [batch(2), batch(1, at=2), batch(3, at=3)]
WHOLE = b"".join(THREE)
STARTS = [0, len(THREE[0]), len(THREE[0]) + len(THREE[1])]


def file_of(content: bytes) -> File:
    file = MemoryFiles().open("/f", create=True)
    file.write((content,), 0)
    return file


def offsets(content: bytes, first_offset: int = 0) -> list[int]:
    return [header.base_offset for _, header in sound_batches(content, 0, first_offset)]


def test_sound_batches_are_believed_in_any_buffer() -> None:
    for kind in (bytes, bytearray, memoryview):
        assert [position for position, _ in sound_batches(kind(WHOLE), 0, 0)] == STARTS


def test_every_cut_leaves_the_whole_batches_before_it() -> None:
    ends = [*STARTS[1:], len(WHOLE)]
    for length in range(len(WHOLE)):
        assert len(offsets(WHOLE[:length])) == sum(end <= length for end in ends)


def test_every_flipped_bit_but_those_of_offset_and_epoch_is_noticed() -> None:
    content = THREE[2]
    for bit in range(8 * len(content)):
        rotten = bytearray(content)
        rotten[bit // 8] ^= 1 << bit % 8
        is_outside_checksum = bit // 8 < 8 or 12 <= bit // 8 < 16
        assert is_outside_checksum or isinstance(readable_batch(bytes(rotten), 0, 3), str), bit


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48, 2**31 - 1])
def test_a_length_that_cannot_be_is_no_batch(length: int) -> None:
    content = WHOLE[:8] + struct.pack(">i", length) + WHOLE[12:]
    assert isinstance(readable_batch(content, 0, 0), str)
    assert list(read_batches(file_of(content), 0, len(content), 0)) == []


def test_zeros_are_no_batch() -> None:
    assert isinstance(readable_batch(bytes(1000), 0, 0), str)


def test_offsets_go_forward() -> None:
    assert offsets(WHOLE, 1) == []
    assert offsets(THREE[0] + THREE[2]) == [0, 3], "a gap is none of its business"
    assert offsets(THREE[0] + THREE[1] + THREE[1]) == [0, 2]
    assert isinstance(readable_batch(WHOLE, 0, 0), BatchHeader)
    assert "offset 0 + 1 where 5 or later" in str(readable_batch(WHOLE, 0, 5))


@examples
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=8), chunk=st.integers(61, 400))
def test_reading_through_a_small_buffer_gives_the_same(sizes: list[int], chunk: int) -> None:
    batches, at = [], 0
    for size in sizes:
        batches.append(batch(size, at=at))
        at += size
    content = b"".join(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qanat.log.segments.batch_scan._CHUNK_BYTES", chunk)
        found = [bytes(data) for _, _, data in read_batches(file_of(content + b"torn"), 0, len(content) + 4, 0)]
    assert found == batches


def test_a_range_is_not_left() -> None:
    file = file_of(WHOLE)
    assert [at for at, _, _ in read_batches(file, STARTS[1], STARTS[2], 2)] == [STARTS[1]]
    assert [at for at, _, _ in read_batches(file, STARTS[1], len(WHOLE) - 1, 2)] == [STARTS[1]]
    assert list(read_batches(file, len(WHOLE), len(WHOLE), 9)) == []


@pytest.mark.parametrize("harm", [b"\xff" * 5, bytes(61)])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_damage_is_found_with_its_bytes_and_its_offsets(victim: int, harm: bytes) -> None:
    at = STARTS[victim]
    content = WHOLE[:at] + harm + WHOLE[at + len(harm) :]
    (damage,) = find_damage(file_of(content), 0, len(content), 0, 6)
    extents = [(0, 2), (2, 3), (3, 6)]
    assert (damage.start, damage.end) == (at, [*STARTS[1:], len(WHOLE)][victim])
    assert (damage.first_offset, damage.next_offset) == extents[victim]
    assert damage.reason


def test_several_damages_are_told_apart_and_neighbours_are_one() -> None:
    batches = [batch(1, at=at) for at in range(6)]
    size = len(batches[0])
    content = bytearray(b"".join(batches))
    for victim in (1, 3, 4):
        content[victim * size + 30] ^= 0xFF
    found = list(find_damage(file_of(bytes(content)), 0, len(content), 0, 6))
    assert [(one.first_offset, one.next_offset) for one in found] == [(1, 2), (3, 5)]


def test_an_offset_that_went_astray_is_damage_though_the_checksum_does_not_cover_it() -> None:
    content = bytearray(WHOLE)
    content[STARTS[1] + 2] ^= 0x40
    assert [one.first_offset for one in find_damage(file_of(bytes(content)), 0, len(content), 0, 6)] != [2]
    (damage,) = find_damage(file_of(bytes(content)), 0, len(content), 0, 6, end_offset=6)
    assert (damage.first_offset, damage.next_offset) == (2, 3)
    assert "everything is before 6" in damage.reason


def test_nothing_is_wrong_with_a_sound_file() -> None:
    assert list(find_damage(file_of(WHOLE), 0, len(WHOLE), 0, 6)) == []
    assert list(find_damage(file_of(b""), 0, 0, 0, 0)) == []


@pytest.mark.parametrize("base", [0, 2**24 - 3, 2**40 - 2, 5 * 2**24 - 1])
def test_the_next_sound_batch_is_found_across_every_carry(base: int) -> None:
    lost, following = batch(2, at=base), batch(1, at=base + 2)
    content = b"\xff" * len(lost) + following
    found = next_sound_batch(file_of(content), 0, len(content), base)
    assert found == (len(lost), read_header(content, len(lost)))
    assert found[1].base_offset == base + 2


def test_a_batch_of_the_past_is_no_place_to_go_on() -> None:
    content = b"\xff" * 70 + THREE[0]
    assert next_sound_batch(file_of(content), 0, len(content), 2) is None


class CountedFile:
    """A file that counts what is read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.read_bytes = 0

    def read(self, position: int, length: int) -> bytearray:
        found = bytearray(self.content[position : position + length])
        self.read_bytes += len(found)
        return found


@pytest.mark.parametrize("gap", [1, 2, 2**20 - 62, 2**20 - 61, 2**20 - 30, 2**20, 2**20 + 1, 3 * 2**20 + 17])
def test_the_next_sound_batch_is_found_wherever_the_reading_is_cut(gap: int) -> None:
    following = batch(1, at=9)
    file = CountedFile(bytes(gap) + following)
    found = next_sound_batch(file, 0, len(file.content), 3)
    assert found is not None
    assert found[0] == gap


@pytest.mark.parametrize("filling", [b"\x00", b"\x02", b"\xff", b"\x00\x00\x00\x02"])
def test_long_runs_of_anything_are_read_once(filling: bytes) -> None:
    """A file system leaves zeros where it has lost something, up to the whole of a segment."""
    file = CountedFile(filling * (4 * 2**20 // len(filling)) + batch(1, at=9))
    (damage,) = find_damage(file, 0, len(file.content), 3, 10)
    assert damage.next_offset == 9
    assert file.read_bytes < 2 * len(file.content)


def test_a_batch_larger_than_what_is_read_at_once_is_a_place_to_go_on() -> None:
    large = batch([(b"k", b"v" * 2**21)], at=5)
    content = bytes(100) + large
    found = next_sound_batch(file_of(content), 0, len(content), 3)
    assert found is not None
    assert found[0] == 100
