"""Iterations of the event loop by bytes: in order, never more than one holds, no append forgotten."""

from __future__ import annotations

import asyncio

from qanat.log.runtime.append_fairness import AppendFairness


async def _write_all(fairness: AppendFairness, sizes: list[int]) -> list[list[int]]:
    """What each turn of the loop let through, as the indexes of the writers."""
    written: list[list[int]] = [[]]
    is_over = False

    async def write(index: int, size: int) -> None:
        await fairness.take(size)
        written[-1].append(index)

    def count_turn() -> None:
        if not is_over:
            written.append([])
            asyncio.get_running_loop().call_soon(count_turn)

    tasks = [asyncio.create_task(write(index, size)) for index, size in enumerate(sizes)]
    asyncio.get_running_loop().call_soon(count_turn)
    await asyncio.gather(*tasks)
    is_over = True
    return [turn for turn in written if turn]


def test_a_turn_lets_through_about_what_it_holds_and_keeps_the_order() -> None:
    passed = asyncio.run(_write_all(AppendFairness(100), [50] * 10))

    assert [index for turn in passed for index in turn] == list(range(10))
    assert max(len(turn) for turn in passed) == 2


def test_what_is_larger_than_a_turn_has_one_of_its_own() -> None:
    assert asyncio.run(_write_all(AppendFairness(100), [500, 500, 500])) == [[0], [1], [2]]


def test_what_fits_waits_for_nobody() -> None:
    assert asyncio.run(_write_all(AppendFairness(100), [10] * 5)) == [[0, 1, 2, 3, 4]]


def test_one_who_gave_up_waiting_takes_nobodys_turn() -> None:
    async def scenario() -> list[str]:
        fairness = AppendFairness(10)
        done: list[str] = []

        async def write(name: str) -> None:
            await fairness.take(10)
            done.append(name)

        tasks = [asyncio.create_task(write(name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await fairness.take(10)
        return done

    assert asyncio.run(scenario()) == ["a", "c"]
