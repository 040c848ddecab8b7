"""Cooperative yield: long work of one request, cut into pieces so that the event loop serves others meanwhile.

A request may have a hundred thousand rows, and the same loop serves all other requests. Code that goes through many
rows yields now and then: the others have their turn, then it goes on.

Rule: nothing is half done at a yield. What must be seen as one (an append, a decision of a group, a commit to the
      store) happens between two yields; state that a row looks up is looked up again after a yield.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import perf_counter
from typing import TypeVar

clock = perf_counter
"""The clock that measures pieces; a simulation puts its own here."""

Row = TypeVar("Row")

PIECE_S = 0.002
"""Work between two yields: a yield costs a hundredth of that."""
FEW_ROWS = 200
"""So few rows do not justify a look at the clock."""


class CooperativeYield:
    """The yields of one request; several loops over rows may share them."""

    __slots__ = ("_until", "count")

    def __init__(self) -> None:
        self._until = clock() + PIECE_S
        self.count = 0

    async def over(self, rows: Iterable[Row]) -> AsyncIterator[Row]:
        """The rows, with a yield between two of them whenever one is due."""
        for row in rows:
            if clock() >= self._until:
                await self.yield_now()
            yield row

    async def pieces(self, rows: Sequence[Row]) -> AsyncIterator[Sequence[Row]]:
        """The rows, a few at a time, where a look at the clock for each would cost too much."""
        async for first in self.over(range(0, len(rows), FEW_ROWS)):
            yield rows[first : first + FEW_ROWS]

    async def yield_now(self) -> None:
        """Let all other tasks have a turn, due or not."""
        self.count += 1
        await asyncio.sleep(0)
        self._until = clock() + PIECE_S
