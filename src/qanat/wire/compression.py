"""Compression codecs of record batches, with a limit that holds while decompressing.

Rule 1: never more than `limit_bytes` (and a decoder's own constant) is
allocated for a payload, whatever size it declares. Where a format
declares its size (snappy) the claim is checked first; elsewhere the payload is
decompressed into a buffer that grows geometrically and stops at the limit.
Rule 2: a stream that ends early, or has bytes after its end, is corrupt.

Snappy has two dialects: Java frames it (xerial), librdkafka sends it raw. Both
are read; Java's is written, since every client reads that one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from struct import error as struct_error

import cramjam

from qanat.model.errors import (
    CorruptBatchError,
    InflatesTooFarError,
    InvalidSettingError,
    UnsupportedCompressionError,
)
from qanat.wire.batch_header import Buffer
from qanat.wire.copying import PIECE_BYTES, copied, room_for

_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_GUESS_RATIO = 4
_GROWTH = 8

_OUTPUT_FULL = "failed to write whole buffer"
"""cramjam's message for output that did not fit; a test checks it."""
_WINDOW_TOO_LARGE = "too much memory"
"""zstd's message for a frame whose window is beyond 128 MiB."""

_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
"""Makes zlib write gzip's frame."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")
_SNAPPY_MAX_RATIO = 22
"""A snappy copy of 3 bytes yields at most 64, so no valid block claims more than this."""


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_number(cls, number: int) -> Codec:
        if 0 <= number <= 4:
            return _BY_NUMBER[number]
        raise UnsupportedCompressionError(
            f"compression codec {number} does not exist (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd)"
        )

    @classmethod
    def from_name(cls, name: str) -> Codec:
        """The codec of a `compression.type` setting; `uncompressed` is Kafka's other word for none."""
        codec = _NAMES.get(name.strip().lower())
        if codec is None:
            raise InvalidSettingError(f"unknown compression {name!r}; use one of {', '.join(_NAMES)}")
        return codec


_BY_NUMBER = tuple(Codec)
_NAMES = {
    "none": Codec.NONE,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes | bytearray:
    """`data` in the codec's format, at the given level, or else at the fast one of each codec.

    A level is a number of the codec's own library: gzip 1 to 9, lz4 1 to 17 (beyond 12 nothing gets smaller),
    zstd up to 22 and far below zero. Snappy has none.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            if level is not None:
                return _compressed_gzip(data, level)
            from isal import igzip_lib  # Half of this module's import time, for what brokers rarely do.

            return bytes(igzip_lib.compress(data, 1, flag=igzip_lib.COMP_GZIP))
        case Codec.SNAPPY:
            return b"".join(_xerial_chunks(data))
        case Codec.LZ4:
            return _compressed_lz4(data, 1 if level is None else level)
        case Codec.ZSTD:
            return copied(memoryview(cramjam.zstd.compress(data, level=1 if level is None else level)))


def _compressed_gzip(data: Buffer, level: int) -> bytes:
    """By zlib: the fast library has no such levels."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _compressed_lz4(data: Buffer, level: int) -> bytearray:
    """A frame of independent blocks: Java refuses linked ones ("Dependent block stream is unsupported").

    No checksum of the content, as in Java: the batch has its own. The library's default is its slowest level.
    """
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    for start in range(0, len(data), PIECE_BYTES):
        compressor.compress(bytes(data[start : start + PIECE_BYTES]))
    return copied(memoryview(compressor.finish()))


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """`data`, decompressed; a payload larger than the limit is refused before it is complete."""
    match Codec.from_number(codec):
        case Codec.NONE:
            if len(data) > limit_bytes:
                raise _too_large(limit_bytes)
            return data
        case Codec.GZIP:
            return _inflate(cramjam.gzip.decompress_into, data, limit_bytes)
        case Codec.SNAPPY:
            return _inflate_snappy(data, limit_bytes)
        case Codec.LZ4:
            return _inflate(cramjam.lz4.decompress_into, data, limit_bytes)
        case Codec.ZSTD:
            return _inflate(cramjam.zstd.decompress_into, data, limit_bytes)


def _inflate(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit_bytes: int) -> bytearray:
    size = min(limit_bytes, max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data)))
    while True:
        inflated = room_for(size)
        try:
            end = decompress_into(data, inflated)
        except cramjam.DecompressionError as fault:
            if _WINDOW_TOO_LARGE in str(fault):
                raise _too_large(limit_bytes) from fault
            if _OUTPUT_FULL not in str(fault):
                raise CorruptBatchError(f"the compressed records cannot be read: {fault}") from fault
            if size >= limit_bytes:
                raise _too_large(limit_bytes) from fault
            size = min(limit_bytes, size * _GROWTH)
        else:
            del inflated[end:]
            return inflated


def _xerial_chunks(data: Buffer) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        yield _BLOCK_LENGTH.pack(len(block))
        yield block


def _inflate_snappy(data: Buffer, limit_bytes: int) -> bytearray:
    view = memoryview(data)
    is_xerial = view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC
    try:
        blocks = list(_xerial_blocks(view)) if is_xerial else [view]
        sizes = _claimed_sizes(blocks, limit_bytes)
        inflated = room_for(sum(sizes))
        target = memoryview(inflated)
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            if cramjam.snappy.decompress_raw_into(block, target[position : position + size]) != size:
                raise CorruptBatchError("a snappy block holds fewer bytes than it claims")
            position += size
    except (cramjam.DecompressionError, struct_error) as fault:
        raise CorruptBatchError(f"the records' snappy data cannot be read: {fault}") from fault
    return inflated


def _claimed_sizes(blocks: list[memoryview], limit_bytes: int) -> list[int]:
    sizes = []
    room = limit_bytes
    for block in blocks:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise CorruptBatchError(f"a snappy block of {len(block)} bytes cannot hold the {size} bytes it claims")
        room -= size
        if room < 0:
            raise _too_large(limit_bytes)
        sizes.append(size)
    return sizes


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    """The raw blocks of Java's framing; a stream may consist of several."""
    position = 0
    while position < len(view):
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise CorruptBatchError("snappy data ends within its header")
            continue
        length = _BLOCK_LENGTH.unpack_from(view, position)[0]
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise CorruptBatchError(f"a snappy block claims {length} bytes, {len(view) - position} are left")
        yield view[position : position + length]
        position += length


def _too_large(limit_bytes: int) -> InflatesTooFarError:
    return InflatesTooFarError(f"the records inflate to more than the {limit_bytes} bytes that are allowed")
