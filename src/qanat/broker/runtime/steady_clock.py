"""The steady clock: the event loop's, which no operator sets and which a simulated loop simulates."""

from __future__ import annotations

import asyncio


def steady_ms() -> int:
    """Milliseconds by the running loop's clock."""
    return int(asyncio.get_running_loop().time() * 1000)
