"""Child processes that end with us, also where we are killed and cannot tell them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ending_with_us() -> Callable[[], None] | None:
    """What a child is to do before it becomes another program (`preexec_fn`): have the kernel send it SIGTERM when
    the thread that starts it ends. None where a kernel does no such thing: only Linux does."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:  # We ended before it was arranged.
            os._exit(1)

    return arrange
