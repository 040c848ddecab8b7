"""Everything that this door answers: one line per file of operations."""

from __future__ import annotations

from qanat.servers.http import (
    cluster_admin,
    config_admin,
    consume,
    documentation,
    group_admin,
    health,
    produce,
    queues,
    streams,
    subscribe,
    topic_admin,
    websocket,
)

OPERATIONS = (
    *produce.OPERATIONS,
    *consume.OPERATIONS,
    *streams.OPERATIONS,
    *websocket.OPERATIONS,
    *subscribe.OPERATIONS,
    *queues.OPERATIONS,
    *topic_admin.OPERATIONS,
    *group_admin.OPERATIONS,
    *config_admin.OPERATIONS,
    *cluster_admin.OPERATIONS,
    *health.OPERATIONS,
    *documentation.OPERATIONS,
)
