"""The event loop of a server process, and the signals that stop it.

Rule: the first SIGTERM or SIGINT starts a clean shutdown, and the second one does not wait for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from qanat.telemetry.events import log_event

_EXIT_FORCED = 130


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def listen_to_signals(stop: asyncio.Event) -> None:
    """Set an event when the process is asked to stop."""
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if stop.is_set():
            log_event("second signal: exiting at once", level="warning", signal=signal.Signals(number).name)
            os._exit(_EXIT_FORCED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
