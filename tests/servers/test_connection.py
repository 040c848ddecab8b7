"""One connection: answers in order, back-pressure, faults; the transport is played by the test."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

import pytest

from qanat.model.errors import MalformedMessageError
from qanat.servers.kafka.connection import REQUESTS_PER_TURN, Answer, KafkaConnection, Outcome
from qanat.servers.kafka.connection_limits import ConnectionLimits


class PlayedTransport:
    """Remembers what the connection does to it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.pauses: list[bool] = []
        """True where reading stopped, False where it went on."""
        self.is_aborted = False
        self.is_closed = False

    @property
    def everything(self) -> bytes:
        """What the client has, however it was cut into writes."""
        return b"".join(self.sent)

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def writelines(self, chunks: list[bytes]) -> None:
        self.sent.append(b"".join(chunks))

    def pause_reading(self) -> None:
        self.pauses.append(True)

    def resume_reading(self) -> None:
        self.pauses.append(False)

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_closed

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True


class Played:
    """A connection between a played transport and a handler."""

    def __init__(self, handle: Callable[[bytes], Outcome], limits: ConnectionLimits | None = None) -> None:
        self.limits = limits or ConnectionLimits(1000, 4, 10_000)
        self.faults: list[BaseException] = []
        self.closed = 0
        self.seen: list[bytes] = []
        self.transport = PlayedTransport()

        def handler(frame: memoryview, connection: KafkaConnection) -> Outcome:
            self.seen.append(bytes(frame))
            return handle(bytes(frame))

        def on_close(connection: KafkaConnection) -> None:
            self.closed += 1

        self.connection = KafkaConnection(handler, self.limits, on_close, lambda _, fault: self.faults.append(fault))
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def send(self, *payloads: bytes) -> None:
        data = b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))


async def test_answers_leave_in_the_order_of_their_requests_whatever_is_parked() -> None:
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    played = Played(lambda frame: parked if frame == b"slow" else [frame.upper()])

    played.send(b"a", b"slow", b"b")
    assert played.transport.everything == b"A"
    assert played.seen == [b"a", b"slow", b"b"], "a parked answer delays no effect"
    parked.set_result([b"SLOW"])
    await asyncio.sleep(0)

    assert played.transport.everything == b"ASLOWB"


async def test_one_request_at_a_time_is_held_from_its_arrival_to_its_answer_and_not_longer() -> None:
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    played = Played(lambda frame: parked if frame == b"slow" else [frame.upper(), b"!"])

    played.send(b"at once")
    assert (played.transport.sent, played.limits.inflight_bytes) == ([b"AT ONCE!"], 0)
    played.send(b"slow")
    assert played.limits.inflight_bytes == len(b"slow")
    played.send(b"behind it")
    assert played.transport.sent == [b"AT ONCE!"]
    assert played.limits.inflight_bytes == len(b"slow") + len(b"behind it")
    parked.set_result([b"late "])
    await asyncio.sleep(0)

    assert played.transport.everything == b"AT ONCE!late BEHIND IT!"
    assert played.limits.inflight_bytes == 0


@pytest.mark.parametrize("is_parked", [False, True])
async def test_a_client_that_is_gone_when_its_request_is_handled_is_not_answered(is_parked: bool) -> None:
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def handle(frame: bytes) -> Outcome:
        if frame == b"first":
            return [frame]
        played.connection.connection_lost(None)
        return parked if is_parked else [frame]

    played = Played(handle)
    played.send(b"first")
    played.send(b"last")
    parked.set_result([b"late"])
    await asyncio.sleep(0)

    assert (played.transport.everything, played.limits.inflight_bytes, played.faults) == (b"first", 0, [])


async def test_a_coroutine_holds_up_the_requests_behind_it() -> None:
    security = asyncio.Event()

    async def held() -> Answer:
        await security.wait()
        return [b"HELD"]

    played = Played(lambda frame: held() if frame == b"held" else [frame.upper()])

    played.send(b"held", b"after")
    await asyncio.sleep(0)
    assert played.seen == [b"held"], "it takes effect before the next one is looked at"
    security.set()
    for _ in range(3):
        await asyncio.sleep(0)

    assert played.seen == [b"held", b"after"]
    assert played.transport.everything == b"HELDAFTER"


async def test_a_client_that_sends_very_many_requests_at_once_leaves_others_their_turn() -> None:
    count = 3 * REQUESTS_PER_TURN // 2
    requests = [b"%d." % number for number in range(count)]
    played = Played(lambda frame: [frame], ConnectionLimits(1000, 4, 1_000_000))

    played.send(*requests)
    assert len(played.seen) == REQUESTS_PER_TURN
    assert played.transport.pauses == [True], "no more is read meanwhile"
    await asyncio.sleep(0)

    assert played.transport.everything == b"".join(requests)
    assert played.transport.pauses == [True, False]
    assert played.limits.inflight_bytes == 0


async def test_a_client_that_leaves_before_its_next_turn_is_forgotten() -> None:
    played = Played(lambda frame: [frame], ConnectionLimits(1000, 4, 1_000_000))
    played.send(*[b"."] * (REQUESTS_PER_TURN + 1))

    played.connection.connection_lost(None)
    await asyncio.sleep(0)

    assert len(played.seen) == REQUESTS_PER_TURN
    assert played.limits.inflight_bytes == 0
    assert played.faults == []


async def test_a_request_without_an_answer_keeps_its_place_and_sends_nothing() -> None:
    played = Played(lambda frame: None if frame == b"acks=0" else [frame])

    played.send(b"acks=0", b"x")

    assert played.transport.sent == [b"x"]


async def test_reading_stops_while_too_many_requests_are_unanswered() -> None:
    futures: list[asyncio.Future[Answer]] = []

    def park(frame: bytes) -> Outcome:
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    played = Played(park)

    played.send(*(bytes([number]) for number in range(6)))
    assert len(played.seen) == 4, "as many as the limit allows"
    for future in futures[:4]:
        future.set_result([b""])
    await asyncio.sleep(0)

    assert len(played.seen) == 6
    assert played.transport.pauses == [True, False]


async def test_nothing_more_is_looked_at_while_the_client_does_not_take_its_answers() -> None:
    played = Played(lambda frame: [frame])

    played.connection.pause_writing()
    played.send(b"a")
    assert played.seen == []
    played.connection.resume_writing()

    assert played.transport.sent == [b"a"]
    assert played.transport.pauses == [True, False]


async def test_connections_that_hold_too_much_together_stop_reading_and_go_on_when_there_is_room() -> None:
    limits = ConnectionLimits(1000, 100, max_inflight_bytes=50)
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    greedy = Played(lambda frame: parked, limits)
    other = Played(lambda frame: [frame], limits)

    greedy.send(b"x" * 60)
    other.send(b"y")
    assert greedy.transport.pauses == [True]
    assert other.transport.pauses == [True], "the bound is for all together"
    parked.set_result([b""])
    await asyncio.sleep(0)

    assert greedy.transport.pauses == [True, False]
    assert other.transport.pauses == [True, False]
    assert limits.inflight_bytes == 0


async def test_a_lost_connection_gives_back_what_it_held_and_drops_its_parked_answers() -> None:
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    played = Played(lambda frame: parked)

    played.send(b"x" * 100)
    played.connection.connection_lost(None)
    parked.set_result([b"too late"])
    await asyncio.sleep(0)

    assert played.limits.inflight_bytes == 0
    assert played.closed == 1
    assert played.transport.sent == []


@pytest.mark.parametrize("length", [2000, -5])
async def test_a_frame_that_is_not_accepted_ends_the_connection_at_once(length: int) -> None:
    played = Played(lambda frame: [frame])

    buffer = played.connection.get_buffer(-1)
    buffer[:4] = struct.pack(">i", length)
    played.connection.buffer_updated(4)

    assert played.transport.is_aborted
    assert isinstance(played.faults[0], MalformedMessageError)


async def test_a_fault_while_handling_ends_this_connection_only_and_is_reported() -> None:
    def refuse(frame: bytes) -> Outcome:
        raise MalformedMessageError("nonsense")

    played = Played(refuse)

    played.send(b"x")

    assert played.transport.is_aborted
    assert len(played.faults) == 1


async def test_a_bug_in_a_parked_answer_ends_the_connection_and_is_reported() -> None:
    parked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    played = Played(lambda frame: parked)

    played.send(b"x")
    parked.set_exception(ZeroDivisionError())
    await asyncio.sleep(0)

    assert played.transport.is_aborted
    assert isinstance(played.faults[0], ZeroDivisionError)
