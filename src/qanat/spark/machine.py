"""Which processes see the same files. Imports nothing of weight: every step of a write asks."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path


def this_machine() -> str:
    """The same for processes of one user on one machine: its name, its start, and who they run as."""
    start = ""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {start} {os.getuid()}"
