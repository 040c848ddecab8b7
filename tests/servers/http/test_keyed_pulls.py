"""A pull by keys, between a child and a log that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from qanat.servers.http.edge.keyed_pulls import Piece, pull_keyed
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.pipe_answer import PipedPartition, PipePosition
from qanat.wire.records import Record, decode_records, encode_batch

LIMIT = 1 << 20
ASKED = PipePosition("prices", 0, 0, keys=("a",))


class Log:
    """Batches of two records each, one of them returned by a read; `answers` come before."""

    def __init__(self, *keys: str) -> None:
        self.batches = [
            encode_batch([Record(2 * at + more, 5, key.encode(), b"v") for more in (0, 1)], leader_epoch=at)
            for at, key in enumerate(keys)
        ]
        self.answers: dict[int, PipedPartition] = {}
        self.waits: list[int] = []
        self.gaps: dict[int, tuple[tuple[int, int], ...]] = {}

    async def read(self, positions: Sequence[PipePosition], wait_ms: int, max_bytes: int) -> list[Piece]:
        offset = positions[0].offset
        self.waits.append(wait_ms)
        if offset in self.answers:
            return [(self.answers[offset], b"")]
        place = offset // 2
        gaps = self.gaps.get(offset, ())
        for _ in range(wait_ms // 10):
            if place < len(self.batches):
                break
            await asyncio.sleep(0.01)
        end = 2 * len(self.batches)
        if place == len(self.batches):
            return [(PipedPartition("prices", 0, "", 0, end, gaps=gaps), b"")]
        batch = bytes(self.batches[place])
        following = (offset + 2, place)
        return [(PipedPartition("prices", 0, "", 0, end, gaps=gaps, size=len(batch), next=following), batch)]

    def pull(self, wait_ms: int, asked: PipePosition = ASKED, max_bytes: int = 65_536) -> Piece:
        return asyncio.run(pull_keyed(self.read, [asked], wait_ms, max_bytes, LIMIT))[0]


def extents(records: bytes) -> list[tuple[int, int, int]]:
    headers = map(read_header, split_batches(records))
    return [(one.base_offset, one.next_offset, one.record_count) for one in headers]


def test_batches_that_do_not_pass_are_left_out_and_the_last_goes_as_its_header() -> None:
    piece, records = Log("b", "a", "b", "b", "a", "c", "b").pull(0, max_bytes=10_000)
    assert extents(records) == [(0, 2, 0)]  # Without a wait, one read is all.
    assert piece.next == (2, 0)

    log = Log("b", "a", "b", "b", "a", "c", "b")
    piece, records = log.pull(1000, max_bytes=10_000)
    assert extents(records) == [(2, 4, 2), (8, 10, 2), (12, 14, 0)]
    assert (piece.next, piece.size, piece.keys) == ((14, 6), len(records), ("a",))
    assert piece.high_watermark == 14


def test_a_batch_of_which_a_part_passes_keeps_extent_and_offsets() -> None:
    log = Log("a")
    mixed = [Record(0, 5, b"b", b"0"), Record(1, 7, b"a", b"1"), Record(2, 9, None, b"2"), Record(3, 9, b"ab", b"3")]
    log.batches = [encode_batch(mixed, producer_id=7, producer_epoch=1, base_sequence=40)]

    _, records = log.pull(0)

    header = read_header(records)
    assert (header.base_offset, header.next_offset, header.producer_id, header.base_sequence) == (0, 4, 7, 40)
    assert decode_records(records, LIMIT) == [mixed[1]]


def test_a_batch_that_passes_whole_and_one_that_cannot_be_opened_go_as_they_are() -> None:
    log = Log("a", "b")
    log.batches[1][-1] ^= 1  # Its checksum does not fit: the child must see that.

    _, records = log.pull(0)
    assert records == bytes(log.batches[0])
    _, records = log.pull(0, replace(ASKED, offset=2))
    assert records == bytes(log.batches[1])


def test_the_answer_waits_until_a_record_passes() -> None:
    log = Log("b", "b")

    async def run() -> Piece:
        asyncio.get_running_loop().call_later(0.15, log.batches.append, Log("x", "x", "a").batches[2])
        return (await pull_keyed(log.read, [ASKED], 5_000, 65_536, LIMIT))[0]

    piece, records = asyncio.run(asyncio.wait_for(run(), 30))
    assert extents(records)[-1] == (4, 6, 2)
    assert piece.next == (6, 2)
    assert log.waits[1] == 0  # What is there already is read without a wait.


def test_the_end_of_the_wait_moves_the_position_to_what_was_read() -> None:
    piece, records = Log("b", "b").pull(100)

    assert extents(records) == [(2, 4, 0)]
    assert piece.next == (4, 1)


def test_what_was_read_goes_where_a_later_read_ends_in_something_else() -> None:
    log = Log("b", "a", "b")
    log.answers[4] = PipedPartition("prices", 0, "OFFSET_OUT_OF_RANGE")

    piece, records = log.pull(1000)

    assert extents(records) == [(2, 4, 2)]
    assert (piece.error, piece.next) == ("", (4, 1))


def test_gaps_of_every_read_are_told() -> None:
    log = Log("b", "a")
    log.gaps = {0: ((1, 2), (8, 9)), 2: ((8, 9), (10, 12))}

    assert log.pull(1000)[0].gaps == ((1, 2), (8, 9), (10, 12))


def test_a_batch_across_the_position_shows_its_header() -> None:
    log = Log("b")

    async def across(positions: Sequence[PipePosition], wait_ms: int, max_bytes: int) -> list[Piece]:
        return await log.read([replace(positions[0], offset=0)], 0, max_bytes)

    asked = replace(ASKED, offset=1)
    ((_, records),) = asyncio.run(pull_keyed(across, [asked], 0, 65_536, LIMIT))
    assert extents(records) == [(0, 2, 0)]


def test_keys_that_the_copy_here_does_not_have_are_an_error() -> None:
    log = Log()
    log.answers[0] = PipedPartition("prices", 0, "", 0, 10, keys=("b*",))

    piece, records = log.pull(1000)

    assert (piece.error, piece.keys, records) == ("INVALID_REQUEST", ("b*",), b"")
