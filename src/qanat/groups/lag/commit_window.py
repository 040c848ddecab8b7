"""The last commits of a group in one partition, and what they say about it: Burrow's states, without thresholds of lag.

A group with much lag that reads fast is fine; one with little lag that has stopped is not. So states look at how
offsets and lag move, not at how large the lag is:

- `ok`       the lag is 0 now, was 0 within the window, or falls
- `warn`     the group commits and moves, and its lag has not fallen within the window
- `stalled`  the group commits, always the same offset, with records behind it
- `stopped`  the group has not committed for longer than its window lasted, with records behind it
- `rewound`  within the window it went back to an earlier offset (a reset), and its lag was never 0

A window is complete after ten commits; before that, a group cannot be `warn` or `stalled`. A quiet topic gets a record
after an hour: its group is not `stopped`, for the record has not waited yet (Burrow#338).
"""

from __future__ import annotations

import itertools
from collections import deque
from enum import Enum
from typing import NamedTuple

WINDOW_COMMITS = 10
STOPPED_AFTER_MS = 60_000
"""So long a group may be without a commit, however often it committed before."""


class LagState(Enum):
    """What a group's lag means, mildest first."""

    OK = "ok"
    WARN = "warn"
    REWOUND = "rewound"
    STALLED = "stalled"
    STOPPED = "stopped"

    @property
    def severity(self) -> int:
        """0 is fine, 1 is worth a look, 2 is broken."""
        return _SEVERITY[self]


_SEVERITY = {LagState.OK: 0, LagState.WARN: 1, LagState.REWOUND: 1, LagState.STALLED: 2, LagState.STOPPED: 2}
_ORDER = tuple(LagState)


def worst(states: list[LagState]) -> LagState:
    """The worst of several states; `OK` of none."""
    return max(states, key=_ORDER.index, default=LagState.OK)


class Commit(NamedTuple):
    """A commit, and the lag when we saw it."""

    offset: int
    lag: int
    at_ms: int


class CommitWindow:
    """The last commits of one group in one partition."""

    __slots__ = ("_commits",)

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque(maxlen=WINDOW_COMMITS)

    def observe(self, offset: int, lag: int, committed_ms: int | None, now_ms: int) -> None:
        """The newest commit; one that was seen before can only lower its lag.

        Where nobody knows when it was made (share groups), it was made when we first saw its offset.
        """
        last = self._commits[-1] if self._commits else None
        if committed_ms is None:
            committed_ms = last.at_ms if last is not None and last.offset == offset else now_ms
        if last is not None and (offset, committed_ms) == (last.offset, last.at_ms):
            self._commits[-1] = last._replace(lag=min(last.lag, lag))
        else:
            self._commits.append(Commit(offset, lag, committed_ms))

    def state(self, lag: int, waited_ms: float, now_ms: int) -> LagState:
        """The state; `waited_ms` is how long the first record that the group has not read has been there."""
        if lag <= 0 or not self._commits:
            return LagState.OK
        first, last = self._commits[0], self._commits[-1]
        patience_ms = max(last.at_ms - first.at_ms, STOPPED_AFTER_MS)
        if min(now_ms - last.at_ms, waited_ms) > patience_ms:
            return LagState.STOPPED
        if any(one.lag <= 0 for one in self._commits):
            return LagState.OK
        return self._moving()

    def _moving(self) -> LagState:
        """The state of a group that commits, and whose lag was never 0."""
        commits = list(self._commits)
        pairs = list(itertools.pairwise(commits))
        if any(later.offset < before.offset for before, later in pairs):
            return LagState.REWOUND
        if len(commits) < WINDOW_COMMITS:
            return LagState.OK
        if commits[0].offset == commits[-1].offset:
            return LagState.STALLED
        if all(later.lag >= before.lag for before, later in pairs):
            return LagState.WARN
        return LagState.OK
