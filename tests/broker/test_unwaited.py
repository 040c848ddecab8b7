"""Work that nobody waits for: faults that were to be expected are dropped, bugs are reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qanat.broker.unwaited import abandon
from qanat.model.errors import QanatError, StoreUnavailableError


async def fail_when_cancelled(fault: Exception) -> None:
    """Fail in the moment in which one is cancelled, as a connection does that is reset just then."""
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        raise fault from None


@pytest.mark.parametrize(
    ("fault", "expected", "reported"),
    [
        (StoreUnavailableError("gone"), (QanatError,), 0),
        (AssertionError("a bug"), (QanatError,), 1),
        (ValueError("known"), (ValueError, QanatError), 0),
    ],
)
async def test_an_expected_fault_of_abandoned_work_is_dropped_and_a_bug_is_reported(
    fault: Exception, expected: tuple[type[Exception], ...], reported: int
) -> None:
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    failed = asyncio.ensure_future(fail_when_cancelled(fault))
    cancelled = asyncio.ensure_future(asyncio.sleep(10))
    done = asyncio.ensure_future(asyncio.sleep(0))
    await asyncio.sleep(0.01)

    abandon(failed, cancelled, done, expected=expected)
    await asyncio.wait([failed, cancelled, done])
    await asyncio.sleep(0)
    del failed, cancelled, done

    assert [one["exception"] for one in seen] == [fault] * reported
