"""What may enter a log: every refusal with the code that Kafka answers, and what is changed on the way in."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from tests.log.batches import LIMIT, NOW, Pair, Writer, batch, log_settings, marker

from qanat.log.admission import admit, is_opened
from qanat.log.settings import LogSettings
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.batch_header import HEADER_SIZE, batch_crc, check_batch, read_header
from qanat.wire.compression import Codec
from qanat.wire.records import decode_records

HOUR = 60 * 60 * 1000
PLAIN = batch(3)


def changed(position: int, content: bytes, original: bytes = PLAIN) -> bytes:
    """A batch with other bytes somewhere and a checksum that holds."""
    content = original[:position] + content + original[position + len(content) :]
    return content[:17] + struct.pack(">I", batch_crc(content)) + content[21:]


def bomb() -> bytes:
    return batch([(b"k", b"\0" * 2 * LIMIT)], codec=Codec.ZSTD)


REFUSALS: dict[str, tuple[dict[str, object], Callable[[], bytes], ErrorCode]] = {
    "too large": ({"max_message_bytes": 100}, lambda: PLAIN, ErrorCode.MESSAGE_TOO_LARGE),
    "larger than a segment": ({"segment_bytes": 100}, lambda: PLAIN, ErrorCode.RECORD_LIST_TOO_LARGE),
    "empty": ({}, lambda: b"", ErrorCode.CORRUPT_MESSAGE),
    "torn": ({}, lambda: PLAIN[:-1], ErrorCode.CORRUPT_MESSAGE),
    "torn in the header": ({}, lambda: PLAIN[:40], ErrorCode.CORRUPT_MESSAGE),
    "rotten": ({}, lambda: PLAIN[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    "two batches": ({}, lambda: PLAIN + PLAIN, ErrorCode.INVALID_RECORD),
    "magic 0": ({}, lambda: changed(16, b"\x00"), ErrorCode.INVALID_RECORD),
    "magic 1": ({}, lambda: changed(16, b"\x01"), ErrorCode.INVALID_RECORD),
    "magic 3": ({}, lambda: changed(16, b"\x03"), ErrorCode.INVALID_RECORD),
    "codec 5": ({}, lambda: changed(22, b"\x05"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 6": ({}, lambda: changed(22, b"\x06"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": ({}, lambda: changed(22, b"\x07"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "control batch": ({}, lambda: marker(7, is_commit=True), ErrorCode.INVALID_RECORD),
    "no records": ({}, lambda: changed(57, struct.pack(">i", 0)), ErrorCode.INVALID_RECORD),
    "lying about offsets": ({}, lambda: changed(23, struct.pack(">i", 7)), ErrorCode.INVALID_RECORD),
    "transactional without a producer": ({}, lambda: batch(is_transactional=True), ErrorCode.INVALID_RECORD),
    "producer without a sequence": ({}, lambda: batch(writer=Writer(7, 0, -1)), ErrorCode.INVALID_RECORD),
    "producer without an epoch": ({}, lambda: batch(writer=Writer(7, -1, 0)), ErrorCode.INVALID_RECORD),
    "no key on a compacted topic": (
        {"cleanup_policy": "compact"},
        lambda: batch([(b"k", b"v"), (None, b"v")]),
        ErrorCode.INVALID_RECORD,
    ),
    "no key in a compressed batch on a compacted topic": (
        {"cleanup_policy": "compact,delete"},
        lambda: batch([(None, b"v")], codec=Codec.LZ4),
        ErrorCode.INVALID_RECORD,
    ),
    "garbage inside on a topic that looks": (
        {"cleanup_policy": "compact"},
        lambda: changed(HEADER_SIZE, b"\xff" * 6),
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "a bomb on a compacted topic": ({"cleanup_policy": "compact"}, bomb, ErrorCode.MESSAGE_TOO_LARGE),
    "a bomb on a topic with a codec": ({"compression_type": "lz4"}, bomb, ErrorCode.MESSAGE_TOO_LARGE),
    "too large once it is stored": (
        {"compression_type": "uncompressed", "max_message_bytes": 1000},
        lambda: batch([(b"k", b"v" * 5000)], codec=Codec.ZSTD),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "larger than a segment once it is stored": (
        {"compression_type": "uncompressed", "segment_bytes": 1000},
        lambda: batch([(b"k", b"v" * 5000)], codec=Codec.ZSTD),
        ErrorCode.RECORD_LIST_TOO_LARGE,
    ),
    "from the future": ({}, lambda: batch(timestamps=NOW + HOUR + 1), ErrorCode.INVALID_TIMESTAMP),
    "one record from the future": (
        {},
        lambda: batch(2, timestamps=[NOW, NOW + HOUR + 1]),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "from the past": (
        {"message_timestamp_before_max_ms": 1000},
        lambda: batch(timestamps=NOW - 1001),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "with the broker's timestamp type": ({}, lambda: changed(22, b"\x08"), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", list(REFUSALS))
def test_a_batch_is_refused_as_kafka_does_it(name: str) -> None:
    settings, build, code = REFUSALS[name]
    with pytest.raises(QanatError) as caught:
        admit(build(), log_settings(**settings), NOW, LIMIT)
    assert caught.value.code is code, str(caught.value)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("settings", "content"),
    [
        ({}, batch(timestamps=NOW + HOUR)),
        ({}, batch(timestamps=0)),
        ({}, batch(timestamps=-1)),
        ({"message_timestamp_before_max_ms": 1000}, batch(timestamps=NOW - 1000)),
        ({"message_timestamp_before_max_ms": 1000}, batch(timestamps=-1)),
        ({"message_timestamp_after_max_ms": 2**63 - 1}, batch(timestamps=2**62)),
        ({"max_message_bytes": len(PLAIN), "segment_bytes": len(PLAIN)}, PLAIN),
        ({}, batch([(None, None)])),
        ({"cleanup_policy": "compact"}, batch([(b"", None)])),
        ({}, batch(writer=Writer(0))),
    ],
)
def test_a_batch_at_the_edge_is_accepted_as_it_is(settings: dict[str, object], content: bytes) -> None:
    admitted = admit(content, log_settings(**settings), NOW, LIMIT)
    assert admitted.batch is content
    assert admitted.header == read_header(content)


def test_a_batch_is_not_opened_where_nothing_asks_for_it() -> None:
    garbage = changed(HEADER_SIZE, b"\xff" * 6)
    assert admit(garbage, LogSettings(), NOW, LIMIT).batch is garbage
    assert not is_opened(LogSettings())
    assert is_opened(log_settings(cleanup_policy="compact"))
    assert is_opened(log_settings(compression_type="gzip"))


@pytest.mark.parametrize("kind", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", list(Codec))
def test_a_topic_with_a_codec_stores_that_codec_and_the_same_records(kind: str, sent: Codec) -> None:
    pairs: list[Pair] = [(b"a", b"1" * 100), (None, None), (b"", b"")]
    content = batch(
        pairs, timestamps=[NOW, NOW - 5, NOW + 5], codec=sent, writer=Writer(7, 1, 2), is_transactional=True
    )
    admitted = admit(content, log_settings(compression_type=kind), NOW, LIMIT)
    wanted = Codec.from_name(kind)
    assert admitted.header.codec == wanted
    assert check_batch(admitted.batch) == admitted.header
    assert decode_records(admitted.batch, LIMIT) == decode_records(content, LIMIT)
    kept = ("producer_id", "producer_epoch", "base_sequence", "is_transactional", "max_timestamp", "record_count")
    assert all(getattr(admitted.header, name) == getattr(read_header(content), name) for name in kept)
    if wanted == sent:
        assert admitted.batch is content


def stored_bytes(**settings: object) -> int:
    words = random.Random(1).choices([b"%d" % number for number in range(3000)], k=10_000)
    admitted = admit(batch([(b"k", b" ".join(words))]), log_settings(**settings), NOW, LIMIT)
    return len(admitted.batch)


@pytest.mark.parametrize(
    ("kind", "levels", "default", "same_as_default"),
    [("gzip", (1, 9), -1, -1), ("lz4", (3, 12), 9, 1), ("zstd", (-50, 19), 3, 3)],
)
def test_a_topics_level_counts_where_a_batch_is_re_encoded(
    kind: str, levels: tuple[int, int], default: int, same_as_default: int
) -> None:
    def at(level: int) -> int:
        return stored_bytes(compression_type=kind, **{f"compression_{kind}_level": level})

    assert at(levels[0]) > 1.02 * at(levels[1])
    assert at(default) == at(same_as_default) == stored_bytes(compression_type=kind)
    others = {f"compression_{other}_level": 1 for other in ("gzip", "lz4", "zstd") if other != kind}
    assert stored_bytes(compression_type=kind, **others) == at(default), "the other codecs' levels are not meant"


def test_a_batch_that_has_the_codec_already_keeps_the_producers_level() -> None:
    content = batch([(b"k", b"v" * 5000)], codec=Codec.ZSTD)
    assert admit(content, log_settings(compression_type="zstd", compression_zstd_level=22), NOW, LIMIT).batch is content


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_is_the_brokers_whatever_the_producer_says(codec: Codec) -> None:
    content = batch(3, timestamps=[NOW - HOUR, NOW + 100 * HOUR, -1], codec=codec)
    admitted = admit(content, log_settings(message_timestamp_type="LogAppendTime"), NOW + 5, LIMIT)
    assert admitted.header.is_log_append_time
    assert admitted.header.max_timestamp == NOW + 5
    assert check_batch(admitted.batch) == admitted.header
    assert [record.timestamp for record in decode_records(admitted.batch, LIMIT)] == [NOW + 5] * 3
    assert read_header(content).max_timestamp == NOW + 100 * HOUR, "the sender's buffer is not written"


def test_any_buffer_will_do() -> None:
    settings = log_settings(compression_type="zstd", message_timestamp_type="LogAppendTime")
    for kind in (bytes, bytearray, memoryview):
        assert admit(kind(PLAIN), settings, NOW, LIMIT) == admit(PLAIN, settings, NOW, LIMIT)
