"""A deadline bounds what it waits for, and loses no cancellation."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, UnreachableError


@pytest.mark.parametrize("outcome", [1, UnreachableError("refused")])
async def test_a_cancellation_in_the_turn_of_an_outcome_ends_the_task(outcome: int | UnreachableError) -> None:
    """A client that is closed while its broker refuses connections went on for ever."""
    waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def retry() -> None:
        while True:
            with contextlib.suppress(UnreachableError):
                await Deadline.after(600).bound(waiting, "an answer")
            await asyncio.sleep(600)

    task = asyncio.create_task(retry())
    await asyncio.sleep(0)
    if isinstance(outcome, int):
        waiting.set_result(outcome)
    else:
        waiting.set_exception(outcome)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=60)

    assert done == {task}
    assert task.cancelled()


async def test_a_cancellation_comes_once() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await Deadline.after(600).bound(asyncio.get_running_loop().create_future(), "an answer")
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=60)

    assert cleaned == ["yes"]


async def test_what_comes_too_late_is_named() -> None:
    with pytest.raises(OutOfTimeError, match="an answer did not come in time"):
        await Deadline.after(0.01).bound(asyncio.get_running_loop().create_future(), "an answer")
