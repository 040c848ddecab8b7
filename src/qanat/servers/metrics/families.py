"""Every metric: its name, kind and meaning, and the source of its numbers.

The documentation's page comes from this table. Names follow Prometheus' conventions: base units, `_total` for counters.
Labels are bounded: APIs, error codes, states; topics and groups, which the operator bounds; partitions only with
`metrics.per.partition`.
"""

from __future__ import annotations

from qanat import __version__
from qanat.servers.metrics.client_families import CLIENTS
from qanat.servers.metrics.edge_families import EDGE
from qanat.servers.metrics.group_families import GROUPS, TRANSACTIONS
from qanat.servers.metrics.handler_families import HANDLERS
from qanat.servers.metrics.log_families import LOGS
from qanat.servers.metrics.observed import ObservedFamily, single
from qanat.servers.metrics.process import (
    cpu_seconds,
    descriptors_max,
    open_descriptors,
    resident_bytes,
    start_time_seconds,
)
from qanat.servers.metrics.replica_families import REPLICAS
from qanat.servers.metrics.request_families import HTTP, PUSH, REQUESTS
from qanat.telemetry.exposition import Family, Sample

_PROCESS: tuple[ObservedFamily, ...] = (
    single("process_cpu_seconds_total", "counter", "CPU time, all threads.", lambda o: cpu_seconds()),
    single("process_resident_memory_bytes", "gauge", "Resident memory.", lambda o: resident_bytes()),
    single("process_open_fds", "gauge", "Open file descriptors.", lambda o: open_descriptors()),
    single("process_max_fds", "gauge", "Most open file descriptors.", lambda o: descriptors_max()),
    single(
        "process_start_time_seconds",
        "gauge",
        "When the process started, in seconds since 1970.",
        lambda o: start_time_seconds(),
    ),
    single(
        "qanat_loop_late_seconds",
        "histogram",
        "Lag of the event loop, measured once a second.",
        lambda o: o.lag.late_s,
    ),
)
"""Under the names that all exporters use."""

FAMILIES: tuple[ObservedFamily, ...] = (
    Family(
        "qanat_build_info",
        "gauge",
        "Always 1; the labels name the version.",
        ("version",),
        lambda observed: (Sample({"version": __version__}, 1),),
    ),
    *REQUESTS,
    *LOGS,
    *REPLICAS,
    *HTTP,
    *PUSH,
    *GROUPS,
    *TRANSACTIONS,
    *HANDLERS,
    *EDGE,
    *CLIENTS,
    *_PROCESS,
)
