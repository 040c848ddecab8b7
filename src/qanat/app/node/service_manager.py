"""The service manager that started this process: systemd's notification protocol (sd_notify), without a library.

systemd passes the path of a datagram socket in `NOTIFY_SOCKET`, and with `WatchdogSec=` how often it wants to hear of
the service in `WATCHDOG_USEC`. Elsewhere there is no such variable, and nothing is sent.

Rule 1: `READY=1` is sent once clients are served: units that need the broker start after it, and no earlier.
Rule 2: `WATCHDOG=1` comes from the event loop that serves clients: a broker whose loop hangs is restarted.
Rule 3: child processes do not inherit the variables: only this process speaks for the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, MutableMapping

_SOCKET, _WATCHDOG, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
_SHARE = 0.4
"""Part of the watchdog's time between two signs of life: two may be late before one is missing."""


class ServiceManager:
    """Tells systemd about the state of this process; does nothing where there is no systemd."""

    def __init__(self, environment: MutableMapping[str, str], pid: int | None = None) -> None:
        """Takes the variables out of the environment."""
        path = environment.pop(_SOCKET, "")
        usec, watched = environment.pop(_WATCHDOG, ""), environment.pop(_WATCHDOG_PID, "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        is_ours = watched in ("", str(os.getpid() if pid is None else pid))
        is_watched = bool(path) and is_ours and usec.isdigit() and int(usec) > 0
        self.watchdog_s = int(usec) / 1e6 * _SHARE if is_watched else None
        """How often to send a sign of life; None where nobody watches."""

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Send signs of life meanwhile, where the service manager wants them."""
        watching = asyncio.create_task(self._watch(self.watchdog_s)) if self.watchdog_s is not None else None
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()

    async def _watch(self, every_s: float) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(every_s)

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), self._address)
