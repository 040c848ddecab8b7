"""Every codec both ways, in the dialects that clients send, and bombs that stay small."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.memory import peak_bytes
from tests.wire.samples import CODECS, LIMIT

import qanat
from qanat.model.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    InvalidSettingError,
    UnsupportedCompressionError,
)
from qanat.wire.compression import Codec, compress, decompress

REAL_CODECS = [codec for codec in CODECS if codec is not Codec.NONE]
MIXED = os.urandom(50_000) + b"qanat " * 50_000
BOMB_BYTES = 256 * 1024 * 1024


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=2000))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), LIMIT)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_is_taken(codec: Codec) -> None:
    for buffer in (MIXED, bytearray(MIXED), memoryview(MIXED)):
        assert bytes(decompress(codec, memoryview(compress(codec, buffer)), len(MIXED))) == MIXED


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, (1, 6, 9)),
        (Codec.LZ4, (1, 4, 17)),
        (Codec.ZSTD, (-131072, -5, 9, 19, 22)),
    ],
)
def test_a_higher_level_makes_it_smaller(codec: Codec, levels: tuple[int, ...]) -> None:
    words = random.Random(1).choices([b"%d" % number for number in range(3000)], k=10_000)
    text = b" ".join(words)
    packed = [compress(codec, text, level) for level in levels]
    sizes = [len(one) for one in packed]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.02 * sizes[-1]
    for one in packed:
        assert bytes(decompress(codec, one, LIMIT)) == text


def test_levels_are_read_by_other_libraries() -> None:
    assert gzip.decompress(compress(Codec.GZIP, MIXED, 9)) == MIXED
    assert lz4.frame.decompress(bytes(compress(Codec.LZ4, MIXED, 12))) == MIXED
    assert not lz4.frame.get_frame_info(bytes(compress(Codec.LZ4, MIXED, 12)))["block_linked"], "Java refuses these"


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, MIXED)

    assert len(decompress(codec, packed, len(MIXED))) == len(MIXED)
    with pytest.raises(BatchTooLargeError):
        decompress(codec, packed, len(MIXED) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_stream_that_ends_early_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, MIXED)

    for end in (*range(20), len(packed) // 2, *range(len(packed) - 12, len(packed))):
        if codec is Codec.SNAPPY and end == 16:
            continue  # Java's framing has no end: a header without blocks is an empty stream.
        with pytest.raises(CorruptBatchError):
            decompress(codec, packed[:end], LIMIT)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("tail", [b"\0", b"garbage after the end"])
def test_bytes_after_the_end_are_corrupt(codec: Codec, tail: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, compress(codec, MIXED) + tail, LIMIT)


@pytest.mark.parametrize("codec", REAL_CODECS)
@given(data=st.binary(max_size=200))
def test_garbage_is_corrupt_and_nothing_else(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptBatchError, BatchTooLargeError):
        decompress(codec, data, 1000)


def test_an_unknown_codec_is_refused() -> None:
    for number in (5, 6, 7, -1):
        with pytest.raises(UnsupportedCompressionError):
            decompress(number, b"", LIMIT)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("none", Codec.NONE),
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("Snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_settings_name_a_codec_as_kafka_does(name: str, codec: Codec) -> None:
    assert Codec.from_name(name) is codec


def test_an_unknown_name_is_a_setting_error() -> None:
    with pytest.raises(InvalidSettingError, match="brotli"):
        Codec.from_name("brotli")


def test_both_dialects_of_snappy_are_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(MIXED))
    framed = compress(Codec.SNAPPY, MIXED)

    assert framed.startswith(b"\x82SNAPPY\x00")
    assert decompress(Codec.SNAPPY, raw, LIMIT) == decompress(Codec.SNAPPY, framed, LIMIT) == MIXED


def test_streams_in_a_row_are_one_payload() -> None:
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)
    members = {
        Codec.GZIP: gzip.compress(b"one ") + stored.compress(b"two") + stored.flush(),
        Codec.LZ4: lz4.frame.compress(b"one ", store_size=False) + lz4.frame.compress(b"two", block_linked=False),
        Codec.ZSTD: compress(Codec.ZSTD, b"one ") + compress(Codec.ZSTD, b"two"),
        Codec.SNAPPY: compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two"),
    }

    for codec, packed in members.items():
        assert decompress(codec, packed, LIMIT) == b"one two"


def test_a_zstd_frame_without_its_size_is_read() -> None:
    streamed = cramjam.zstd.Compressor()
    streamed.compress(MIXED)
    packed = bytes(streamed.finish())

    assert packed[4] >> 6 == 0, "the frame has no content size"
    assert decompress(Codec.ZSTD, packed, LIMIT) == MIXED


def zeros(codec: Codec) -> bytes:
    """A stream of zeros, far larger than it looks."""
    data = bytes(BOMB_BYTES)
    if codec is Codec.LZ4:
        return bytes(cramjam.lz4.compress(data, level=1))
    return bytes(compress(codec, data))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_is_refused_before_it_has_grown(codec: Codec) -> None:
    bomb = zeros(codec)
    limit = 1024 * 1024

    def refuse() -> None:
        with pytest.raises(BatchTooLargeError):
            decompress(codec, bomb, limit)

    assert peak_bytes(refuse, 3 * limit) < 3 * limit


MEASURE_RESIDENT = """
import resource, sys
from qanat.model.errors import QanatError
from qanat.wire.compression import decompress
data = sys.stdin.buffer.read()
decompress(int(sys.argv[1]), bytes.fromhex(sys.argv[2]), 1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(int(sys.argv[1]), data, 1 << 20)
except QanatError as refusal:
    print(type(refusal).__name__, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decoder_holds_no_more_than_its_own_constant(codec: Codec) -> None:
    warm = compress(codec, b"to load the library").hex()
    run = subprocess.run(
        [sys.executable, "-c", MEASURE_RESIDENT, str(int(codec)), warm],
        input=zeros(codec),
        env={**os.environ, "PYTHONPATH": str(Path(qanat.__file__).parents[1])},
        capture_output=True,
        check=True,
    )
    refusal, kilobytes = run.stdout.split()

    assert refusal == b"InflatesTooFarError"
    assert int(kilobytes) < 20 * 1024


def zstd_frame(window_log: int) -> bytes:
    """Ten bytes in a frame that asks for a window of any size."""
    block = struct.pack("<I", 10 << 3 | 1)[:3] + b"0123456789"
    return struct.pack("<I", 0xFD2FB528) + bytes([0, window_log - 10 << 3]) + block


def test_a_zstd_frame_with_a_huge_window_is_refused() -> None:
    assert decompress(Codec.ZSTD, zstd_frame(20), 100) == b"0123456789"
    with pytest.raises(BatchTooLargeError):
        decompress(Codec.ZSTD, zstd_frame(30), 100)


def test_a_snappy_block_that_claims_too_much_is_not_allocated_for() -> None:
    claim_1_gib = b"\x80\x80\x80\x80\x04" + b"\x00" * 100

    def refuse() -> None:
        with pytest.raises(CorruptBatchError, match="claims"):
            decompress(Codec.SNAPPY, claim_1_gib, 2**40)

    assert peak_bytes(refuse, 100_000) < 100_000


def test_snappy_blocks_with_impossible_lengths_are_corrupt() -> None:
    header = compress(Codec.SNAPPY, b"")
    for length in (0, -1, 5, 2**31 - 1):
        with pytest.raises(CorruptBatchError):
            decompress(Codec.SNAPPY, header + struct.pack(">i", length) + b"\x01\x00a", LIMIT)
