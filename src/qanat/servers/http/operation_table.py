"""All HTTP operations: one line per module. The documentation shows all but its own, and the console's files."""

from __future__ import annotations

from qanat.servers.http import console_files
from qanat.servers.http.admin import (
    client_metrics_admin,
    cluster_admin,
    config_admin,
    diagnosis,
    health,
    pipeline_runs,
    restartable,
    security_admin,
    session_admin,
    topic_admin,
    traffic_admin,
)
from qanat.servers.http.admin.documentation import Documentation
from qanat.servers.http.dead_letters import letters, redrive
from qanat.servers.http.edge import nodes, pipe, up
from qanat.servers.http.groups import group_admin, group_lag, push_refreshes, queue_description, queues, subscribe
from qanat.servers.http.records import consume, produce, search
from qanat.servers.http.streams import server_sent_events, websocket

DOCUMENTED = (
    *produce.OPERATIONS,
    *consume.OPERATIONS,
    *search.OPERATIONS,
    *server_sent_events.OPERATIONS,
    *websocket.OPERATIONS,
    *subscribe.OPERATIONS,
    *queues.OPERATIONS,
    *queue_description.OPERATIONS,
    *letters.OPERATIONS,
    *redrive.OPERATIONS,
    *topic_admin.OPERATIONS,
    *traffic_admin.OPERATIONS,
    *group_admin.OPERATIONS,
    *group_lag.OPERATIONS,
    *push_refreshes.OPERATIONS,
    *config_admin.OPERATIONS,
    *cluster_admin.OPERATIONS,
    *client_metrics_admin.OPERATIONS,
    *diagnosis.OPERATIONS,
    *pipeline_runs.OPERATIONS,
    *security_admin.OPERATIONS,
    *session_admin.OPERATIONS,
    *nodes.OPERATIONS,
    *pipe.OPERATIONS,
    *up.OPERATIONS,
    *health.OPERATIONS,
    *restartable.OPERATIONS,
)
OPERATIONS = (*DOCUMENTED, *Documentation(DOCUMENTED).operations, *console_files.OPERATIONS)
