"""Requests with few rows and very many bytes, on the wire or decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from bench.stalls.cases import Case
from bench.stalls.crowd import COMPACTED, LARGE, REPACKED, STAMPED, Crowd, repacked, wide
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages import fetch, produce
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch

_TIMEOUT_MS = 60_000
_NOISE_BYTES = 1 << 20


def of_bytes(crowd: Crowd) -> Iterator[Case]:
    size = crowd.large_bytes

    def large() -> bytes:
        return _batch(size, Codec.NONE)

    yield _to(LARGE, f"one batch of {size >> 20} MB", large)
    yield Case(ApiKey.FETCH, "that batch", lambda rows: _fetched(LARGE, size), 1)
    yield _to(STAMPED, f"one batch of {size >> 20} MB, log append time", large)
    yield _to(
        COMPACTED,
        f"one batch of {min(size, crowd.inflated_bytes) >> 20} MB, compacted topic",
        lambda: _batch(min(size, crowd.inflated_bytes), Codec.NONE),
    )
    yield Case(
        ApiKey.PRODUCE,
        f"partitions, {crowd.part_bytes >> 10} KB each",
        lambda rows: _request(wide(0), [_batch(crowd.part_bytes, Codec.NONE)] * rows),
        crowd.parts,
    )
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        inflated = crowd.inflated_bytes if codec is not Codec.SNAPPY else crowd.inflated_bytes // 4
        what = f"{inflated >> 20} MB of {codec.name.lower()}, compacted topic"
        yield _to(COMPACTED, f"many records, {what}", _many(inflated, codec))
        yield _to(COMPACTED, f"one record, {what}", _zeros(inflated, codec))
    for compression, codec in REPACKED.items():
        inflated = crowd.inflated_bytes // 4
        yield _to(
            repacked(compression),
            f"{inflated >> 20} MB of {codec.name.lower()}, stored as {compression}",
            _many(inflated, codec),
        )


def _to(topic: str, what: str, batch: Callable[[], bytes]) -> Case:
    return Case(ApiKey.PRODUCE, what, lambda rows: _request(topic, [batch()]), 1)


def _request(topic: str, batches: list[bytes]) -> produce.ProduceRequest:
    parts = [produce.PartitionProduceData(number, memoryview(batch)) for number, batch in enumerate(batches)]
    return produce.ProduceRequest(None, 1, _TIMEOUT_MS, [produce.TopicProduceData(topic, partition_data=parts)])


def _fetched(topic: str, size: int) -> fetch.FetchRequest:
    part = fetch.FetchPartition(0, partition_max_bytes=2 * size)
    return fetch.FetchRequest(max_bytes=2 * size, topics=[fetch.FetchTopic(topic, partitions=[part])])


@cache
def _batch(size: int, codec: Codec) -> bytes:
    """About so many bytes of one incompressible record."""
    noise = bytes(number * number >> 3 & 0xFF for number in range(min(size, _NOISE_BYTES)))
    value = (noise * (size // len(noise) + 1))[: size - 200]
    return bytes(encode_batch([Record(0, 0, b"key", value)], codec=codec))


def _zeros(size: int, codec: Codec) -> Callable[[], bytes]:
    return cache(lambda: bytes(encode_batch([Record(0, 0, b"key", bytes(size - 200))], codec=codec)))


def _many(size: int, codec: Codec) -> Callable[[], bytes]:
    """The smallest records: reading them is all the work."""
    count = size // 13
    return cache(lambda: bytes(encode_batch([Record(n, 0, b"k", None) for n in range(count)], codec=codec)))
