"""The end of a worker process: at once, also where threads of handlers still block."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from qanat.client.app.daemon_threads import HandlerThread
from qanat.telemetry.events import log_event

_THREADS_S = 0.5
"""How long threads may take to see that the app has ended."""


def end_despite_threads(code: int) -> int:
    """The exit code, where nothing holds the process up; otherwise the process ends here, without its threads."""
    deadline = time.monotonic() + _THREADS_S
    left = [one for one in _others() if not _has_ended(one, deadline)]
    if not left:
        return code
    log_event("threads still run, the process ends without them", level="warning", threads=[one.name for one in left])
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _others() -> list[threading.Thread]:
    """Threads that the interpreter would wait for, and those of handlers, which may hold its locks."""
    here = threading.current_thread()
    return [
        one for one in threading.enumerate() if one is not here and (isinstance(one, HandlerThread) or not one.daemon)
    ]


def _has_ended(thread: threading.Thread, deadline: float) -> bool:
    thread.join(max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()
