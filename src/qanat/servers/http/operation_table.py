"""All HTTP operations: one line per module. The documentation shows all but its own."""

from __future__ import annotations

from qanat.servers.http.admin import cluster_admin, config_admin, health, pipeline_runs, restartable, topic_admin
from qanat.servers.http.admin.documentation import Documentation
from qanat.servers.http.dead_letters import letters, redrive
from qanat.servers.http.groups import group_admin, queues, subscribe
from qanat.servers.http.records import consume, produce
from qanat.servers.http.streams import server_sent_events, websocket

DOCUMENTED = (
    *produce.OPERATIONS,
    *consume.OPERATIONS,
    *server_sent_events.OPERATIONS,
    *websocket.OPERATIONS,
    *subscribe.OPERATIONS,
    *queues.OPERATIONS,
    *letters.OPERATIONS,
    *redrive.OPERATIONS,
    *topic_admin.OPERATIONS,
    *group_admin.OPERATIONS,
    *config_admin.OPERATIONS,
    *cluster_admin.OPERATIONS,
    *pipeline_runs.OPERATIONS,
    *health.OPERATIONS,
    *restartable.OPERATIONS,
)
OPERATIONS = (*DOCUMENTED, *Documentation(DOCUMENTED).operations)
