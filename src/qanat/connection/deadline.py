"""A deadline: one time limit for many requests and retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from qanat.connection.faults import OutOfTimeError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Deadline:
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
        try:
            return await asyncio.wait_for(work, self.left_seconds)
        except TimeoutError:
            raise OutOfTimeError(f"{what} did not come in time") from None

    async def pause(self, seconds: float) -> None:
        """Wait a little before the next attempt, but not past the deadline."""
        await asyncio.sleep(min(seconds, self.left_seconds))


def _now() -> float:
    """The running loop's clock, which may be simulated; outside of a loop, the clock that loops use."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
