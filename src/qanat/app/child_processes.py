"""Child processes that end with this process, even if it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> Callable[[], None] | None:
    """A `preexec_fn` that makes the kernel send SIGTERM to the child when the thread that started it ends.

    None where the kernel cannot: only Linux can.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def request_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:  # The parent ended before the request.
            os._exit(1)

    return request_signal
