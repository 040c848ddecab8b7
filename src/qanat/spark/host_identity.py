"""Host identity: which processes see the same files. It imports little: every step of a write needs it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path


def host_identity() -> str:
    """Equal for processes of one user on one machine: host name, boot id and user id."""
    start = ""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {start} {os.getuid()}"
