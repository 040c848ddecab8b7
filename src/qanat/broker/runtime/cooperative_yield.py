"""Work of one request on the loop, cut into pieces that keep nobody waiting for long.

A request may have a hundred thousand rows, and everybody else's requests are served by the same loop. Whoever
goes through many rows takes a breath now and then: the others have their turn, then it goes on.

Rule: between two breaths nothing is half done. What must be seen as one (an append, a decision of a group,
a commit to the store) happens between two breaths; what a row looks at is looked at anew after a breath.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter
from typing import TypeVar

clock = perf_counter
"""By which pieces are measured; a simulation puts its own here."""

Row = TypeVar("Row")

PIECE_S = 0.002
"""Work between two breaths: a breath costs a hundredth of that."""
FEW_ROWS = 200
"""So many rows are not worth a look at the clock."""


class CooperativeYield:
    """One request's breaths; several loops over rows may share them."""

    __slots__ = ("_until", "taken")

    def __init__(self) -> None:
        self._until = clock() + PIECE_S
        self.taken = 0

    async def over(self, rows: Iterable[Row]) -> AsyncIterator[Row]:
        """The rows, with a breath between two of them whenever it is time."""
        for row in rows:
            if clock() >= self._until:
                await self.take()
            yield row

    async def pieces(self, rows: Sequence[Row]) -> AsyncIterator[Sequence[Row]]:
        """The rows, a few at a time, where a look at the clock for each would cost too much."""
        async for first in self.over(range(0, len(rows), FEW_ROWS)):
            yield rows[first : first + FEW_ROWS]

    async def take(self) -> None:
        """Let everybody else have a turn, due or not."""
        self.taken += 1
        await asyncio.sleep(0)
        self._until = clock() + PIECE_S
