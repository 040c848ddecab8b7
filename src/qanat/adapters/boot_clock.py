"""The boot clock: time since boot, and which boot; all processes of a host share it, and it cannot be set.

It runs while the machine sleeps. Changes of the system clock do not affect it; after a reboot earlier readings
mean nothing, which the boot id shows.
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
