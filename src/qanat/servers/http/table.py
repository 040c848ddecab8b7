"""Everything that this door answers: one line per file of operations."""

from __future__ import annotations

from qanat.servers.http import consume, documentation, health, produce, streams, websocket

OPERATIONS = (
    *produce.OPERATIONS,
    *consume.OPERATIONS,
    *streams.OPERATIONS,
    *websocket.OPERATIONS,
    *health.OPERATIONS,
    *documentation.OPERATIONS,
)
