"""How much memory a step takes at most."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

TRIES = 3


def peak_bytes(step: Callable[[], object], limit: int) -> int:
    """The most that Python allocates for a step; the least of several tries where that reaches the limit.

    What another thread of the process allocates meanwhile is counted, too, but not every time: a worker of pytest has
    one that is told which tests to run.
    """
    least = limit
    for _try in range(TRIES):
        tracemalloc.start()
        try:
            step()
            least = min(least, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        if least < limit:
            break
    return least
