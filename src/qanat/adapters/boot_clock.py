"""A clock that several processes of one host share and nobody can set: time since boot, and which boot.

It goes on while the machine sleeps. Wall-clock jumps do not touch it; after a reboot its readings from before
mean nothing, which the boot's id tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boottime_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class BootClock(Struct, frozen=True):
    """Milliseconds since the boot that `boot_id` names."""

    boot_id: str
    now_ms: Callable[[], int] = boottime_ms

    @staticmethod
    def of_this_host() -> BootClock:
        with open(_BOOT_ID) as file:
            return BootClock(file.read().strip())
