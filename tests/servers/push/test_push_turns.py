"""The wheel of due times and the late pass."""

import asyncio
import time
import weakref

import pytest

from qanat.model.ids import TopicPartition
from qanat.servers.push import turns
from qanat.servers.push.shared_payloads import PayloadKey, SharedPayloads
from qanat.servers.push.turns import SLOT_MS, LatePass, Wheel

AT = TopicPartition("prices", 0)


def test_a_member_is_due_within_a_slot_after_its_time_and_once() -> None:
    wheel: Wheel[str] = Wheel()
    wheel.put("a", 10_000)

    assert wheel.take(10_000 - 1) == []
    assert wheel.take(10_000 + SLOT_MS) == ["a"]
    assert wheel.take(20_000) == []


def test_a_member_that_is_put_again_is_due_at_the_new_time_only() -> None:
    wheel: Wheel[str] = Wheel()
    wheel.put("a", 1_000)
    wheel.put("a", 5_000)
    wheel.put("b", 1_000)
    wheel.put("b", 3_000)
    wheel.put("b", 1_000)

    assert wheel.take(2_000) == ["b"]
    assert wheel.take(4_000) == []
    assert wheel.take(6_000) == ["a"]


def test_a_member_whose_time_is_over_is_due_next_and_a_discarded_one_never() -> None:
    wheel: Wheel[str] = Wheel()
    assert wheel.take(10_000) == []
    wheel.put("late", 3_000)
    wheel.put("gone", 3_000)
    wheel.discard("gone")

    assert wheel.take(10_000 + SLOT_MS) == ["late"]
    assert len(wheel) == 0


class Member:
    """Something whose end can be seen."""


def test_a_discarded_member_is_not_kept_until_it_would_have_been_due() -> None:
    wheel: Wheel[Member] = Wheel()
    member = Member()
    end = weakref.ref(member)
    wheel.put(member, 10_000)
    wheel.put(member, 20_000)
    wheel.discard(member)
    del member

    assert end() is None


async def test_the_late_pass_serves_each_member_once_and_those_that_come_meanwhile_in_the_next() -> None:
    served: list[str] = []

    def serve(member: str) -> None:
        served.append(member)
        if len(served) == 1:
            late.add("b")

    late: LatePass[str] = LatePass(serve)
    late.add("a")
    late.add("a")
    assert served == []

    await asyncio.sleep(0.3)

    assert served == ["a", "b"]


async def test_the_event_loop_goes_on_between_the_members_of_a_late_pass() -> None:
    served: list[int] = []

    def serve(member: int) -> None:
        served.append(member)
        time.sleep(0.001)

    late: LatePass[int] = LatePass(serve)
    for member in range(20):
        late.add(member)

    seen = set()
    async with asyncio.timeout(60):
        while len(served) < 20:
            await asyncio.sleep(0)
            seen.add(len(served))

    assert len(seen) > 10, f"the loop saw only {sorted(seen)}"


async def test_a_late_pass_goes_on_as_soon_as_records_have_left_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LATE_S", 0.0)
    monkeypatch.setattr(turns, "_PAUSE_S", 60.0)
    monkeypatch.setattr(turns, "_AT_ONCE_S", 0.0)
    served: list[int] = []
    late: LatePass[int] = LatePass(served.append)
    for member in range(3):
        late.add(member)
    late.records_left()
    assert served == [], "it has not begun"
    await asyncio.sleep(0.01)
    assert served == [0]

    late.records_left()
    late.records_left()
    await asyncio.sleep(0.01)

    assert served == [0, 1], "one at a time"


async def test_a_closed_late_pass_serves_nobody() -> None:
    served: list[str] = []
    late: LatePass[str] = LatePass(served.append)
    late.add("a")
    late.close()

    await asyncio.sleep(0.05)

    assert served == []


def test_payloads_are_shared_until_newer_ones_need_their_room() -> None:
    shared = SharedPayloads(max_bytes=3_000)
    keys = [PayloadKey(AT, 0, offset, 0, 7) for offset in range(3)]
    for key in keys[:2]:
        shared.put(key, [(key.base_offset, bytes(1_000))])
    assert shared.get(keys[0]) == [(0, bytes(1_000))]
    assert shared.get(keys[0]._replace(crc=8)) is None

    shared.put(keys[2], [(2, bytes(1_000))])

    assert shared.get(keys[0]) is None
    assert shared.get(keys[2]) == [(2, bytes(1_000))]
