"""A checksum that follows from the old one is the one that the bytes give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.conftest import Wire
from tests.wire.samples import plain

from qanat.model.errors import CorruptBatchError
from qanat.wire.batch_header import HEADER_SIZE, check_batch
from qanat.wire.crc import crc32c

LENGTHS = [0, 1, 2, 3, 7, 8, 255, 256, 65_535, 65_536, 550_000, 1_048_577]


@pytest.mark.parametrize("length", LENGTHS)
def test_the_beginning_changes_and_what_follows_is_not_looked_at(wire: Wire, length: int) -> None:
    before, after, rest = b"one beginning", b"and the other", bytes(number % 251 for number in range(length))
    difference = crc32c(before) ^ crc32c(after)

    assert crc32c(before + rest) ^ wire.crc_change.carried(difference, length) == crc32c(after + rest)


@given(st.binary(min_size=1, max_size=80), st.binary(max_size=300), st.data())
def test_any_beginning_before_anything(compiled: Wire, before: bytes, rest: bytes, data: st.DataObject) -> None:
    after = data.draw(st.binary(min_size=len(before), max_size=len(before)))
    difference = crc32c(before) ^ crc32c(after)

    assert crc32c(before + rest) ^ compiled.crc_change.carried(difference, len(rest)) == crc32c(after + rest)


@pytest.mark.parametrize("place", [HEADER_SIZE - 1, HEADER_SIZE, -1], ids=["in the header", "first", "last"])
def test_a_batch_that_was_spoilt_stays_spoilt_whoever_sends_it(wire: Wire, place: int) -> None:
    batch = bytearray(wire.records.encode_batch(plain(wire.records, 20)))
    spoilt = bytearray(batch)
    spoilt[place] ^= 4
    for one in (batch, spoilt):
        wire.records.set_producer(one, 7, 1, 100, is_transactional=True)

    assert check_batch(batch).base_sequence == 100
    with pytest.raises(CorruptBatchError, match="checksum mismatch"):
        check_batch(spoilt)
