"""A deadline: one time limit for many requests and retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from qanat.connection.faults import OutOfTimeError

Result = TypeVar("Result")


class Deadline(msgspec.Struct, frozen=True):
    """A moment on the steady clock."""

    at: float

    @staticmethod
    def after(seconds: float) -> Deadline:
        return Deadline(_now() + seconds)

    @property
    def left_seconds(self) -> float:
        return max(0.0, self.at - _now())

    @property
    def left_ms(self) -> int:
        return int(self.left_seconds * 1000)

    @property
    def is_over(self) -> bool:
        return self.left_seconds == 0.0

    async def bound(self, work: Awaitable[Result], what: str) -> Result:
        """The result of `work`, which is cancelled at the deadline; `what` names it in the error."""
        task = asyncio.current_task()
        assert task is not None
        requests, is_cancelled = task.cancelling(), False
        try:
            return await asyncio.wait_for(work, self.left_seconds)
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        except TimeoutError:
            raise OutOfTimeError(f"{what} did not come in time") from None
        finally:
            if not is_cancelled and task.cancelling() > requests:
                # `wait_for` of Python 3.11 prefers an outcome of the same turn to a cancellation, which would be lost:
                # it comes with the next wait of the task.
                task.uncancel()
                task.cancel()

    async def pause(self, seconds: float) -> None:
        """Wait a little before the next attempt, but not past the deadline."""
        await asyncio.sleep(min(seconds, self.left_seconds))


def _now() -> float:
    """The running loop's clock, which may be simulated; outside of a loop, the clock that loops use."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
