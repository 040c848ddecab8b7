"""Copies in pieces, and native walks that leave other threads their turns."""

from __future__ import annotations

import sys
import threading

import pytest

from qanat.wire.copying import PIECE_BYTES, copied, room_for
from qanat.wire.record_reader import count_null_keys, filter_records, scan_keys


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7])
@pytest.mark.parametrize("free_bytes", [0, 61])
def test_a_copy_is_the_same_behind_its_free_bytes(size: int, free_bytes: int) -> None:
    source = bytes(number % 251 for number in range(1000)) * (size // 1000 + 1)
    source = source[:size]

    for kind in (bytes, bytearray, memoryview):
        target = copied(kind(source), free_bytes)
        assert (len(target), bytes(target[free_bytes:])) == (free_bytes + size, source)
    assert not any(copied(source, free_bytes)[:free_bytes])


def test_room_is_as_long_as_it_should_be() -> None:
    assert len(room_for(0)) == 0
    assert len(room_for(5 * PIECE_BYTES)) == 5 * PIECE_BYTES


def varint(number: int) -> bytes:
    number <<= 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def record(delta: int, header_count: int = 0) -> bytes:
    body = b"\0\0" + varint(delta) + b"\x01\x01" + varint(header_count) + b"\0\x01" * header_count
    return varint(len(body)) + body


MANY = 40_000
PAYLOADS = {
    "many records": (b"".join(record(number) for number in range(MANY)), MANY),
    "many headers": (record(0, MANY), 1),
}


@pytest.mark.parametrize("what", PAYLOADS)
@pytest.mark.parametrize("walk", ["count_null_keys", "scan_keys", "filter_records"])
def test_other_threads_have_their_turns_during_a_walk(what: str, walk: str) -> None:
    """Counted is what another thread gets done within one call, over as many calls as it takes."""
    payload, count = PAYLOADS[what]
    turns, is_over = [0], threading.Event()

    def spin() -> None:
        while not is_over.is_set():
            turns[0] += 1

    def within_one_call() -> int:
        before = turns[0]
        if walk == "count_null_keys":
            count_null_keys(payload, count, count - 1)
        elif walk == "scan_keys":
            scan_keys(payload, count, count - 1)
        else:
            filter_records(payload, count, count - 1, bytes([1]) * count, 0)
        return turns[0] - before

    interval_s = sys.getswitchinterval()
    spinner = threading.Thread(target=spin)
    sys.setswitchinterval(1e-5)
    spinner.start()
    try:
        assert any(within_one_call() for _ in range(1000))
    finally:
        sys.setswitchinterval(interval_s)
        is_over.set()
        spinner.join()
