"""A key's partition is what Java's client says; the numbers are from Kafka's own UtilsTest."""

from __future__ import annotations

from array import array

import pytest
from aiokafka.partitioner import murmur2 as their_murmur2  # type: ignore[import-untyped]
from tests.wire.conftest import Wire


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
def test_hashes_are_those_of_java(wire: Wire, text: str, signed: int) -> None:
    assert wire.key_hash.murmur2(text.encode()) == signed % 2**32


def some_keys() -> list[bytes]:
    return [bytes((7 * length + 13 * position) % 256 for position in range(length)) for length in range(40)]


def test_another_client_agrees_on_every_length(wire: Wire) -> None:
    for key in some_keys():
        assert wire.key_hash.murmur2(key) == their_murmur2(key) % 2**32
        assert wire.key_hash.partition_of(key, 7) == (their_murmur2(key) & 0x7FFFFFFF) % 7


def test_a_column_of_keys_is_placed_like_each_of_them(wire: Wire) -> None:
    keys = some_keys()
    offsets = array("i", [0])
    for key in keys:
        offsets.append(offsets[-1] + len(key))
    targets = array("i", [-1]) * len(keys)
    wire.key_hash.place_rows(offsets, b"".join(keys), 7, targets)

    assert list(targets) == [wire.key_hash.partition_of(key, 7) for key in keys]


@pytest.mark.parametrize(
    ("offsets", "count"), [([0, 4], 3), ([0, 4, 2], 3), ([0, 4, 9], 3), ([-1, 2, 4], 3), ([0, 4, 8], 0)]
)
def test_a_column_that_lies_is_not_read(wire: Wire, offsets: list[int], count: int) -> None:
    with pytest.raises(AssertionError):
        wire.key_hash.place_rows(array("i", offsets), b"12345678", count, array("i", [0, 0]))
