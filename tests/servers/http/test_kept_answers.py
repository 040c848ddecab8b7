"""Answers that take long to find are found once for all who ask; short ones are always new."""

from __future__ import annotations

import asyncio

import pytest

from qanat.servers.http import kept_answers
from qanat.servers.http.kept_answers import KeptAnswer, KeptAnswers


class Clock:
    """Seconds that pass where a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kept_answers, "time", made)
    return made


class Search:
    """Finds the next number, and takes its time."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self.count = 0

    async def find(self) -> int:
        self.count += 1
        await asyncio.sleep(0)
        self._clock.now_s += self._takes_s
        return self.count


@pytest.mark.parametrize(("takes_s", "kept_s"), [(0.0, 0.0), (0.01, 2.0), (0.04, 8.0), (1.0, 10.0)])
async def test_an_answer_is_kept_two_hundred_times_as_long_as_it_took(
    clock: Clock, takes_s: float, kept_s: float
) -> None:
    search, kept = Search(clock, takes_s), KeptAnswer[int]()
    assert await kept.get(search.find) == 1
    if kept_s:
        clock.now_s += kept_s - 0.001
        assert await kept.get(search.find) == 1
    clock.now_s += 0.002

    assert await kept.get(search.find) == 2


async def test_an_answer_may_be_kept_for_some_time_at_least(clock: Clock) -> None:
    search, kept = Search(clock, 0.0), KeptAnswer[int](2.0)
    assert [await kept.get(search.find) for _ in range(3)] == [1, 1, 1]
    clock.now_s += 2.0

    assert await kept.get(search.find) == 2


async def test_who_asks_meanwhile_waits_for_the_answer_that_is_being_found(clock: Clock) -> None:
    search, answers = Search(clock, 0.01), KeptAnswers()

    assert await asyncio.gather(*(answers.get("who", search.find) for _ in range(10))) == [1] * 10


async def test_a_fault_is_not_kept(clock: Clock) -> None:
    async def fail() -> int:
        clock.now_s += 1.0
        raise ValueError("the broker is away")

    search, answers = Search(clock, 0.01), KeptAnswers()
    with pytest.raises(ValueError, match="the broker is away"):
        await answers.get("who", fail)

    assert await answers.get("who", search.find) == 1


async def test_other_questions_have_other_answers_and_some_are_not_kept(clock: Clock) -> None:
    search, answers = Search(clock, 0.01), KeptAnswers()

    assert [await answers.get(one, search.find) for one in ("who", "what", "who", None, None)] == [1, 2, 1, 3, 4]


async def test_few_answers_are_kept_at_a_time_and_old_ones_make_room(clock: Clock) -> None:
    search, answers = Search(clock, 0.01), KeptAnswers()
    for number in range(20):
        await answers.get(number, search.find)
    assert len(answers._kept) == kept_answers._ANSWERS_MAX
    clock.now_s += 10.0

    assert await answers.get(19, search.find) == 21
    assert await answers.get(19, search.find) == 21
    assert len(answers._kept) == 1
