"""The limits of all connections: incomplete frames count, one sender always goes on, and none blocks the rest."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest
from tests.servers.test_connection import Played

from qanat.model.errors import SlowSenderError
from qanat.servers.kafka.connection import Answer, Outcome
from qanat.servers.kafka.connection_limits import ConnectionLimits

REQUEST_BYTES = 1_000_000
HALF_BYTES = 400_000
DEADLINE_S = 60.0


def limits_of(inflight_bytes: int = 3 * HALF_BYTES, grace_s: float = 3600.0) -> ConnectionLimits:
    return ConnectionLimits(REQUEST_BYTES, 100, inflight_bytes, grace_s=grace_s, look_s=0.005)


class Stream:
    """One client that sends a large request bit by bit, as far as it is read from."""

    def __init__(self, limits: ConnectionLimits, size: int = REQUEST_BYTES, answer: Outcome = None) -> None:
        self.answer = answer
        self.played = Played(lambda frame: [b"done"] if self.answer is None else self.answer, limits)
        self._data = struct.pack(">i", size) + bytes(size)
        self._sent = 0
        self.limit = len(self._data)
        """Where the client stops."""

    @property
    def is_read(self) -> bool:
        return self.played.connection.is_reading and not self.played.transport.is_aborted

    @property
    def is_answered(self) -> bool:
        return self.played.transport.everything == b"done"

    def send(self, count: int) -> None:
        """So many more bytes; less where the connection takes no more."""
        end = min(self._sent + count, self.limit)
        while self._sent < end and self.is_read:
            room = self.played.connection.get_buffer(-1)
            appended = min(len(room), end - self._sent)
            room[:appended] = self._data[self._sent : self._sent + appended]
            self._sent += appended
            self.played.connection.buffer_updated(appended)

    def leave(self) -> None:
        self.played.connection.connection_lost(None)


async def until(condition: Iterator[bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        for is_so in condition:
            if is_so:
                return
            await asyncio.sleep(0.001)


async def test_what_has_come_of_a_frame_counts_and_what_was_announced_does_not() -> None:
    limits = limits_of()
    stream = Stream(limits)

    stream.send(4)
    assert limits.inflight_bytes == 4
    stream.send(HALF_BYTES)
    assert limits.inflight_bytes == 4 + HALF_BYTES
    stream.send(REQUEST_BYTES)
    assert (stream.is_answered, limits.inflight_bytes) == (True, 0)


@pytest.mark.parametrize(("sent", "counted"), [(100, 100), (4096, 4096), (5000, 64 * 1024)])
async def test_a_small_frame_that_is_not_whole_counts_as_the_memory_it_keeps(sent: int, counted: int) -> None:
    limits = limits_of()
    stream = Stream(limits, size=50_000)

    stream.send(sent)
    assert limits.inflight_bytes == counted
    stream.leave()

    assert limits.inflight_bytes == 0


async def test_many_halves_stop_at_the_bound_and_all_of_them_are_answered_in_the_end() -> None:
    """If each sender waited for the memory of the others, none could go on; so those that lack least do."""
    limits = limits_of(inflight_bytes=5 * HALF_BYTES)
    streams = [Stream(limits) for _ in range(20)]
    peak = 0

    for stream in streams:
        stream.send(HALF_BYTES)
        peak = max(peak, limits.inflight_bytes)
    for stream in streams:
        stream.send(1)
    assert sum(stream.is_read for stream in streams) == 1, "two of them would lack too much together"
    assert peak <= limits.max_inflight_bytes + REQUEST_BYTES

    def sent() -> Iterator[bool]:
        nonlocal peak
        while True:
            for stream in streams:
                stream.send(50_000)
                peak = max(peak, limits.inflight_bytes)
            yield all(stream.is_answered for stream in streams)

    await until(sent())

    assert peak <= limits.max_inflight_bytes + 2 * REQUEST_BYTES
    assert (limits.inflight_bytes, limits.starved) == (0, {})


async def test_no_more_is_let_on_while_what_is_whole_waits_for_its_answer() -> None:
    limits = limits_of(inflight_bytes=3 * HALF_BYTES)
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    streams = [Stream(limits, answer=parked) for _ in range(6)]

    for _ in range(20):
        for stream in streams:
            stream.send(HALF_BYTES)
    assert limits.inflight_bytes <= limits.max_inflight_bytes + 2 * REQUEST_BYTES
    assert not any(stream.is_read for stream in streams)
    parked.set_result([b"done"])
    for _ in range(20):
        await asyncio.sleep(0)
        for stream in streams:
            stream.send(HALF_BYTES)

    assert all(stream.is_answered for stream in streams)


async def test_one_who_stops_in_the_middle_is_closed_where_others_wait_and_they_go_on() -> None:
    limits = limits_of(grace_s=0.02)
    slow = [Stream(limits) for _ in range(3)]
    for stream in slow:
        stream.send(HALF_BYTES)
    other = Stream(limits)
    other.send(100)
    assert not other.is_read

    def closed() -> Iterator[bool]:
        while True:
            for stream in slow:
                if stream.played.transport.is_aborted:
                    stream.leave()
            other.send(REQUEST_BYTES)
            yield other.is_answered

    await until(closed())

    assert isinstance(slow[0].played.faults[0], SlowSenderError)


async def test_a_small_request_does_not_wait_for_large_ones_that_have_stopped() -> None:
    limits = limits_of(inflight_bytes=3 * HALF_BYTES)
    slow = [Stream(limits) for _ in range(10)]
    for stream in slow:
        stream.send(HALF_BYTES)
    for stream in slow:
        stream.send(1)
    small = Stream(limits, size=100_000)
    small.send(10)
    slow[0].leave()

    def sent() -> Iterator[bool]:
        while True:
            for stream in slow[1:]:
                stream.send(HALF_BYTES)  # There is always more of theirs to be read, but never the end.
            small.send(100_000)
            yield small.is_answered

    for stream in slow:
        stream.limit = REQUEST_BYTES - 1
    await until(sent())

    assert not any(stream.is_answered for stream in slow)


async def test_requests_that_come_whole_are_answered_though_halves_of_others_have_taken_all_there_is() -> None:
    limits = limits_of(inflight_bytes=3 * HALF_BYTES)
    for _ in range(10):
        Stream(limits).send(HALF_BYTES)
    assert limits.is_full
    other = Played(lambda frame: [frame], limits)

    for number in range(100):
        other.send(b"%d" % number)

    assert other.transport.everything == b"".join(b"%d" % number for number in range(100))
    assert other.connection.is_reading


async def test_where_no_client_waits_any_may_be_slow() -> None:
    limits = limits_of(grace_s=0.0)
    slow = Stream(limits)
    slow.send(HALF_BYTES)
    await asyncio.sleep(0.05)

    slow.send(REQUEST_BYTES)

    assert slow.is_answered


async def test_small_halves_that_have_their_memory_are_read_to_their_end() -> None:
    limits = limits_of(inflight_bytes=2 * 64 * 1024)
    streams = [Stream(limits, size=20_000) for _ in range(3)]
    for stream in streams:
        stream.send(10_000)

    streams[1].send(20_000)

    assert streams[1].is_answered


async def test_one_connection_is_not_read_from_while_its_own_requests_hold_too_much() -> None:
    parked: list[asyncio.Future[Answer]] = []

    def park(frame: bytes) -> Outcome:
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    limits = ConnectionLimits(1000, 100, 10_000, max_connection_bytes=50)
    greedy, other = Played(park, limits), Played(lambda frame: [frame], limits)

    greedy.send(b"x" * 30, b"x" * 30)
    other.send(b"y")
    assert (greedy.transport.pauses, other.transport.pauses) == ([True], [])
    parked[0].set_result([b""])
    await asyncio.sleep(0)

    assert greedy.transport.pauses == [True, False]
