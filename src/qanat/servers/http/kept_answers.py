"""Answers that take long to find are kept for a while, for all who ask: ten browser tabs cost what one does.

An answer is kept for two hundred times as long as it took to find, ten seconds at most: that is half a percent of the
event loop, however many ask, and next to nothing in a small cluster, where an answer is always new.

Rule: a caller gets what was found for callers who see the same, by the same rules.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")
KEPT_FOR, KEPT_MOST_S = 200, 10.0
_ANSWERS_MAX = 8
"""Answers to different questions; of 10,000 rows each takes some megabytes."""


class KeptAnswer(Generic[Found]):
    """The answer to one question; who asks meanwhile waits for the one that is being found."""

    def __init__(self, kept_least_s: float = 0.0) -> None:
        self._least_s = kept_least_s
        self._until_s = 0.0
        self._found: Found | None = None
        self._finding = asyncio.Lock()

    @property
    def is_over(self) -> bool:
        """Whether the next one who asks has it found anew."""
        return time.monotonic() >= self._until_s and not self._finding.locked()

    async def get(self, find: Callable[[], Awaitable[Found]]) -> Found:
        async with self._finding:
            began_s = time.monotonic()
            if self._found is None or began_s >= self._until_s:
                self._found = await find()
                ended_s = time.monotonic()
                self._until_s = ended_s + max(self._least_s, min(KEPT_FOR * (ended_s - began_s), KEPT_MOST_S))
            return self._found


class KeptAnswers:
    """The answers to questions of the last seconds."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, KeptAnswer[object]] = {}

    async def get(self, question: Hashable | None, find: Callable[[], Awaitable[Found]]) -> Found:
        """The answer to a question; None is one that nobody else asks."""
        kept = self._kept.get(question)
        if kept is None:
            if question is None or not self._has_room():
                return await find()
            kept = self._kept[question] = KeptAnswer()
        return await kept.get(find)  # type: ignore[return-value]

    def _has_room(self) -> bool:
        self._kept = {question: kept for question, kept in self._kept.items() if not kept.is_over}
        return len(self._kept) < _ANSWERS_MAX
