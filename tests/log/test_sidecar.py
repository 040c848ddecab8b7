"""Sidecars: believed when whole, rebuilt when torn, refused when they are not for us."""

from __future__ import annotations

import msgspec
import pytest

from qanat.log.segments.sidecar import Sidecar, TableChecksums, decode_sidecar, encode_sidecar
from qanat.model.errors import UnreadableSegmentError
from qanat.wire.crc import crc32c

SIDECAR = Sidecar(
    size=1000,
    next_offset=50,
    max_timestamp=1_700_000_000_000,
    max_timestamp_offset=49,
    checksums=TableChecksums(offset_index=1, time_index=2, aborted_index=3),
)


def sealed_line(line: bytes) -> bytes:
    return line + b"\n%08x\n" % crc32c(line)


def test_what_was_written_is_read() -> None:
    assert decode_sidecar(encode_sidecar(SIDECAR), "a.sidecar") == SIDECAR


def test_a_torn_sidecar_counts_for_nothing_at_any_length() -> None:
    content = encode_sidecar(SIDECAR)
    for length in range(len(content)):
        assert decode_sidecar(content[:length], "a.sidecar") is None, length


def test_a_flipped_bit_anywhere_makes_it_count_for_nothing() -> None:
    content = encode_sidecar(SIDECAR)
    for position in range(len(content)):
        rotten = bytearray(content)
        rotten[position] ^= 0x04
        assert decode_sidecar(bytes(rotten), "a.sidecar") is None, position


def test_a_later_format_is_refused_and_told_what_to_do() -> None:
    content = encode_sidecar(msgspec.structs.replace(SIDECAR, format=2))
    with pytest.raises(UnreadableSegmentError, match=r"a\.sidecar has format 2.*upgrade"):
        decode_sidecar(content, "a.sidecar")


@pytest.mark.parametrize("line", [b'{"format":2}', b'{"format":9,"size":"large","checksums":[]}'])
def test_a_later_format_is_refused_whatever_else_it_holds(line: bytes) -> None:
    with pytest.raises(UnreadableSegmentError, match="upgrade"):
        decode_sidecar(sealed_line(line), "a.sidecar")


@pytest.mark.parametrize("line", [b"{}", b"[]", b"not json", b'{"format":1}'])
def test_a_sound_line_that_is_no_sidecar_counts_for_nothing(line: bytes) -> None:
    assert decode_sidecar(sealed_line(line), "a.sidecar") is None


def test_a_key_that_is_not_at_hand_is_named() -> None:
    sidecar = decode_sidecar(encode_sidecar(msgspec.structs.replace(SIDECAR, key_id="kms/7")), "a.sidecar")
    assert sidecar is not None
    sidecar.require_key("kms/7", "a.sidecar")
    for another in (None, "kms/8"):
        with pytest.raises(UnreadableSegmentError, match=r"a.sidecar.*'kms/7'.*left untouched"):
            sidecar.require_key(another, "a.sidecar")
