"""Unauthenticated clients: connections that have yet to authenticate, and what they may take until then.

Rule 1: a client has `login.timeout.ms`; then its connection is closed.
Rule 2: of more than `max.unauthenticated.connections`, the oldest is closed. A client that logs in at once is not the
        oldest for long, so idle ones cannot keep others out.
Rule 3: until then a frame has at most `sasl.server.max.receive.size` bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qanat.telemetry.events import RateLimitedEvent

if TYPE_CHECKING:
    from qanat.security.settings import SecuritySettings
    from qanat.servers.kafka.connection import KafkaConnection
    from qanat.telemetry.broker_counters import BrokerCounters


class UnauthenticatedClients:
    """Those of one Kafka listener. Belongs to one event loop."""

    def __init__(self, settings: SecuritySettings, counters: BrokerCounters) -> None:
        self._settings = settings
        self._counters = counters
        self._since_s: dict[KafkaConnection, float] = {}
        """When each one came, oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._log_closed = RateLimitedEvent("connection closed before authentication")

    def __len__(self) -> int:
        return len(self._since_s)

    def add(self, connection: KafkaConnection) -> None:
        """Take in a new connection."""
        connection.limit_frames(self._settings.sasl_server_max_receive_size)
        if len(self._since_s) >= self._settings.max_unauthenticated_connections:
            self._close_oldest(setting="max.unauthenticated.connections")
        self._since_s[connection] = asyncio.get_running_loop().time()
        if self._timer is None:
            self._wait()

    def discard(self, connection: KafkaConnection) -> None:
        """Forget a connection that has authenticated or is gone."""
        self._since_s.pop(connection, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        """Wait for the deadline of the oldest."""
        oldest_s = next(iter(self._since_s.values()), None)
        self._timer = None
        if oldest_s is not None:
            due_s = oldest_s + self._settings.login_timeout_ms / 1000
            self._timer = asyncio.get_running_loop().call_at(due_s, self._close_late)

    def _close_late(self) -> None:
        latest_s = asyncio.get_running_loop().time() - self._settings.login_timeout_ms / 1000
        while self._since_s and next(iter(self._since_s.values())) <= latest_s:
            self._close_oldest(setting="login.timeout.ms")
        self._wait()

    def _close_oldest(self, setting: str) -> None:
        connection = next(iter(self._since_s))
        del self._since_s[connection]
        self._counters.unauthenticated_closed += 1
        self._log_closed(peer=connection.peer, setting=setting)
        connection.is_refused = True  # For one whose transport is not there yet.
        connection.abort()
