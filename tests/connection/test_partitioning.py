"""A key's partition is what Java's client says; the numbers are from Kafka's own UtilsTest."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as their_murmur2  # type: ignore[import-untyped]

from qanat.connection.partitioning import murmur2, partition_of


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_hashes_are_those_of_java(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed % 2**32


def test_another_client_agrees_on_every_length() -> None:
    for length in range(40):
        key = bytes((7 * length + 13 * position) % 256 for position in range(length))
        assert murmur2(key) == their_murmur2(key) % 2**32
        assert partition_of(key, 7) == (their_murmur2(key) & 0x7FFFFFFF) % 7
