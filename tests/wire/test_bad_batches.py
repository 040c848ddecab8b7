"""Bytes that are no batch: each lie has its error, and nothing but our errors ever comes out."""

from __future__ import annotations

import contextlib
import random
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.wire.conftest import Wire
from tests.wire.samples import CODECS, LIMIT, plain, raw_record, resealed, varint, with_payload

from qanat.model.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    InvalidRecordError,
    QanatError,
    UnsupportedCompressionError,
)
from qanat.wire.batch_header import HEADER_SIZE, check_batch, check_stored_batch
from qanat.wire.compression import Codec, compress

NULL = varint(-1)
ZERO = varint(0)
HEAD = b"\x00" + ZERO + ZERO
"""Attributes, timestamp delta, offset delta."""
GOOD = raw_record(HEAD, NULL, NULL, ZERO)
FUZZ_SECONDS = 1.0

LYING_PAYLOADS: dict[str, tuple[bytes, int]] = {
    "record length beyond the payload": (varint(100) + GOOD[1:], 1),
    "record length short of its fields": (varint(4) + GOOD[1:], 1),
    "record length beyond its fields": (raw_record(HEAD, NULL, NULL, ZERO, b"rest"), 1),
    "record length negative": (varint(-5) + GOOD[1:], 1),
    "record length zero": (ZERO + GOOD[1:], 1),
    "record length of 2^62": (varint(2**62) + GOOD[1:], 1),
    "key length beyond the record": (raw_record(HEAD, varint(50), NULL, ZERO) + GOOD * 10, 11),
    "key length negative": (raw_record(HEAD, varint(-2), NULL, ZERO), 1),
    "key length of 2^63 - 1": (raw_record(HEAD, varint(2**63 - 1), NULL, ZERO), 1),
    "value length beyond the record": (raw_record(HEAD, NULL, varint(50), ZERO) + GOOD * 10, 11),
    "value length negative": (raw_record(HEAD, NULL, varint(-2), ZERO), 1),
    "value length of -2^63": (raw_record(HEAD, NULL, varint(-(2**63)), ZERO), 1),
    "header count beyond the record": (raw_record(HEAD, NULL, NULL, varint(3), ZERO, NULL), 1),
    "header count negative": (raw_record(HEAD, NULL, NULL, varint(-1)), 1),
    "header count huge": (raw_record(HEAD, NULL, NULL, varint(2**31 - 1), ZERO, NULL), 1),
    "header key null": (raw_record(HEAD, NULL, NULL, varint(1), NULL, NULL), 1),
    "header key length beyond the record": (raw_record(HEAD, NULL, NULL, varint(1), varint(9), NULL) + GOOD * 9, 10),
    "header value length beyond the record": (raw_record(HEAD, NULL, NULL, varint(1), ZERO, varint(9)) + GOOD * 9, 10),
    "header value length negative": (raw_record(HEAD, NULL, NULL, varint(1), ZERO, varint(-2)), 1),
    "number of more than 64 bits": (raw_record(b"\x00", b"\xff" * 9 + b"\x02", ZERO, NULL, NULL, ZERO), 1),
    "number of more than ten bytes": (raw_record(b"\x00", b"\x80" * 10 + b"\x01", ZERO, NULL, NULL, ZERO), 1),
    "number without end": (raw_record(b"\x00", b"\xff" * 8), 1),
    "offset delta negative": (raw_record(b"\x00", ZERO, varint(-1), NULL, NULL, ZERO), 1),
    "offset delta beyond the batch": (raw_record(b"\x00", ZERO, varint(1), NULL, NULL, ZERO), 1),
    "offset delta repeated": (GOOD + GOOD, 2),
    "fewer records than counted": (GOOD + b"\x00" * 7, 2),
    "more records than counted": (GOOD + raw_record(b"\x00", ZERO, varint(2), NULL, NULL, ZERO), 1),
    "bytes after the last record": (GOOD + b"\x00", 1),
}


def openers(wire: Wire) -> list[Callable[[Any], object]]:
    """Everything that opens a batch."""
    return [
        lambda batch: wire.records.decode_records(batch, LIMIT),
        lambda batch: wire.filtering.read_keys(batch, LIMIT),
        lambda batch: wire.filtering.check_records(batch, LIMIT),
        lambda batch: wire.filtering.retain(batch, [True] * min(check_stored_batch(batch).record_count, 20), LIMIT),
        lambda batch: shown(wire.columns.decode_columns([batch], limit_bytes=LIMIT)),
    ]


def shown(columns: Any) -> list[Any]:
    """What the columns hold, not where they hold it."""
    binary = (columns.keys, columns.values, columns.header_keys, columns.header_values)
    return [list(numbers) for numbers in (columns.offsets, columns.timestamps, columns.header_offsets)] + [
        (column.validity, list(column.offsets), column.data, column.null_count) for column in binary
    ]


@pytest.mark.parametrize("lie", LYING_PAYLOADS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_length_that_lies_is_corrupt_to_everyone(wire: Wire, lie: str, codec: Codec) -> None:
    payload, count = LYING_PAYLOADS[lie]
    packed = bytes(compress(codec, payload))
    batch = with_payload(packed, count, codec=codec, last_offset_delta=max(count - 1, 0))

    for open_batch in openers(wire):
        with pytest.raises(CorruptBatchError):
            open_batch(batch)


def test_the_honest_twin_of_the_lies_is_accepted(wire: Wire) -> None:
    for open_batch in openers(wire):
        open_batch(with_payload(GOOD, 1))


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_corrupt(wire: Wire, count: int) -> None:
    batch = with_payload(GOOD, count, last_offset_delta=2**31 - 1)

    for open_batch in openers(wire):
        with pytest.raises(CorruptBatchError):
            open_batch(batch)


@pytest.mark.parametrize("count", [0, -1, 2])
def test_a_producer_must_count_its_records(count: int) -> None:
    with pytest.raises(InvalidRecordError):
        check_batch(with_payload(GOOD, count, last_offset_delta=0))


@pytest.mark.parametrize(("base_offset", "last"), [(-1, 0), (2**63 - 1, 1), (0, -1)])
def test_a_stored_batch_lies_within_the_offsets(base_offset: int, last: int) -> None:
    batch = with_payload(b"", 0, last_offset_delta=last)
    struct.pack_into(">q", batch, 0, base_offset)

    with pytest.raises(CorruptBatchError):
        check_stored_batch(batch)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_another_format_is_an_invalid_record(wire: Wire, magic: int) -> None:
    batch = wire.records.encode_batch(plain(wire.records))
    batch[16] = magic

    for check in (check_batch, *openers(wire)):
        with pytest.raises(InvalidRecordError):
            check(batch)


def test_a_wrong_checksum_is_corrupt(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))
    batch[17] ^= 1

    for check in (check_batch, *openers(wire)):
        with pytest.raises(CorruptBatchError, match="checksum"):
            check(batch)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_has_its_own_error(wire: Wire, codec: int) -> None:
    batch = with_payload(GOOD, 1, codec=codec)

    for check in (check_batch, *openers(wire)):
        with pytest.raises(UnsupportedCompressionError):
            check(batch)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_beyond_the_limit_is_too_large(wire: Wire, codec: Codec) -> None:
    batch = wire.records.encode_batch([wire.records.Record(0, 0, None, bytes(10_000))], codec=codec)

    with pytest.raises(BatchTooLargeError):
        wire.records.decode_records(batch, 10_000)
    with pytest.raises(BatchTooLargeError):
        wire.columns.decode_columns([batch, batch], limit_bytes=15_000)


def test_two_batches_are_not_one(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))

    with pytest.raises(InvalidRecordError, match="more than one"):
        check_batch(batch + batch)


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_a_batch_length_that_lies_is_corrupt(wire: Wire, length: int) -> None:
    batch = wire.records.encode_batch(plain(wire.records))
    struct.pack_into(">i", batch, 8, length)

    with pytest.raises(CorruptBatchError):
        check_batch(resealed(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused(wire: Wire, codec: Codec) -> None:
    batch = wire.records.encode_batch(plain(wire.records), codec=codec)

    for end in range(len(batch)):
        with pytest.raises(QanatError):
            wire.records.decode_records(batch[:end], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncated_payload_is_corrupt_even_with_a_right_header(wire: Wire, codec: Codec) -> None:
    whole = bytes(wire.records.encode_batch(plain(wire.records), codec=codec))

    for end in range(HEADER_SIZE, len(whole)):
        batch = bytearray(whole[:end])
        struct.pack_into(">i", batch, 8, end - 12)
        with pytest.raises(CorruptBatchError):
            wire.records.decode_records(resealed(batch), LIMIT)


def test_no_single_flipped_bit_goes_unnoticed(wire: Wire) -> None:
    records = plain(wire.records)
    whole = wire.records.encode_batch(records)
    base_offset_and_epoch = {*range(8), *range(12, 16)}

    for bit in range(8 * len(whole)):
        batch = bytearray(whole)
        batch[bit // 8] ^= 1 << bit % 8
        if bit // 8 in base_offset_and_epoch:
            continue  # The broker sets these, so they lie outside the checksum.
        with pytest.raises(QanatError):
            wire.records.decode_records(batch, LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_no_flipped_bit_with_a_right_checksum_escapes_our_errors(wire: Wire, codec: Codec) -> None:
    whole = wire.records.encode_batch(plain(wire.records), codec=codec)
    everything = openers(wire)

    for bit in range(8 * 21, 8 * len(whole)):
        batch = bytearray(whole)
        batch[bit // 8] ^= 1 << bit % 8
        survive(everything[bit % len(everything)], resealed(batch))


def survive(open_batch: Callable[[Any], object], batch: bytearray) -> None:
    with contextlib.suppress(QanatError):
        open_batch(batch)


def mutated(chance: random.Random, payload: bytes) -> bytes:
    """A few bytes changed, cut out, doubled or replaced by numbers that hurt."""
    data = bytearray(payload)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = data[max(0, at - 8) : at]
            case _:
                data[at : at + 1] = varint(chance.choice([-2, -1, 0, 1, 63, 64, 2**31 - 1, 2**31, 2**62, -(2**63)]))
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_payloads_end_in_our_errors_and_alike_in_both_forms(
    compiled: Wire, interpreted: Wire, seed: int
) -> None:
    chance = random.Random(seed)
    whole = bytes(compiled.records.encode_batch(plain(compiled.records)))[HEADER_SIZE:]
    deadline = time.monotonic() + FUZZ_SECONDS

    while time.monotonic() < deadline:
        payload = mutated(chance, whole)
        batch = with_payload(payload, chance.randint(0, 6), last_offset_delta=chance.choice([5, 6, 2**31 - 1]))
        for native, plain_python in zip(openers(compiled), openers(interpreted), strict=True):
            assert outcome(native, batch) == outcome(plain_python, batch), f"seed {seed}: {batch.hex()}"


def outcome(open_batch: Callable[[Any], object], batch: bytearray) -> str:
    try:
        return repr(open_batch(batch))
    except QanatError as fault:
        return f"{type(fault).__name__}: {fault}"
