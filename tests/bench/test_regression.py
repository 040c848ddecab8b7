"""The regression guard: nothing has become far slower, and it would be seen if it had."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from bench.regression import COSTS, TOLERANCE, Found, all_work, checked, look, times

from bench import regression
from qanat.app.bench.log_figures.columns import column_form

pytestmark = pytest.mark.skipif(column_form() != "compiled", reason="costs are those of the compiled core")


FAR_SLOWER = 3.0
"""Costs are of one processor and one Python: a test on any machine allows for others. `make guard` is stricter."""


def test_nothing_has_become_far_slower() -> None:
    found = asyncio.run(checked())

    report = [f"{one.work.what} costs {one.share:.2f} of what it did" for one in found if one.share > FAR_SLOWER]
    assert report == [], "make guard shows all of them; bench/regression.py says what to do"
    assert {one.work.name for one in found} == COSTS.keys()


@pytest.mark.long
def test_work_that_is_done_twice_is_seen() -> None:
    """Half the speed, put in on purpose: each path compared with itself, in the same minute."""

    async def shares() -> dict[str, float]:
        async with all_work() as work:
            now = {one.work.name: one.cost for one in look(work, COSTS, rounds=9)}
            slowed = [replace(one, do=times(2, one.do)) for one in work]
            # Once is enough to be seen: a disturbance between the two looks is none of the guard's.
            seen = [look(slowed, now, rounds=9) for _ in range(3)]
            return {name: max(one.share for found in seen for one in found if one.work.name == name) for name in now}

    assert [name for name, share in asyncio.run(shares()).items() if share <= TOLERANCE] == []


def test_what_is_slower_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([3.0, 2.0, 1.2])

    def disturbed(work: list[regression.Work], costs: dict[str, float]) -> list[Found]:
        share = next(looks)
        return [Found(one, costs[one.name] * (share if one.name == "codec" else 1.0), costs[one.name]) for one in work]

    monkeypatch.setattr(regression, "look", disturbed)

    assert [one.is_slower for one in asyncio.run(checked())] == [False] * len(COSTS)
    assert list(looks) == []


def test_what_stays_slower_is_told_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(work: list[regression.Work], costs: dict[str, float]) -> list[Found]:
        return [Found(one, costs[one.name] * (2.0 if one.name == "fetch" else 0.4), costs[one.name]) for one in work]

    monkeypatch.setattr(regression, "look", slow)

    assert regression.main([]) == regression.EXIT_SLOWER
    printed = capsys.readouterr().out
    assert printed.count("SLOWER") == 1
    assert "cheaper: lower its cost" in printed
