"""The workloads: each with its client settings, its topic's settings, requirements and goals.

- `settings`     of clients and topics
- `form`         a workload, a sample, the figures of it
- `bounds`       requirements of several workloads
- `throughput`   batches in and out, by size and compression
- `requests`     single records: pipelined, 64 at a time, one at a time, end to end
- `growing`      a cold reader with a concurrent writer; more and more partitions and clients

Counts are per round; `--quick` takes a part of them, of some workloads.
"""

from __future__ import annotations

from bench.workloads.form import Figure, Growth, Sample, Workload, at_least, at_most
from bench.workloads.growing import CATCH_UP, CLIENTS, PARTITIONS
from bench.workloads.requests import END_TO_END, FLUSHED_REQUESTS, REQUESTS, single, sync
from bench.workloads.settings import AT_ONCE, BATCHED, FLUSHED, KIB, ONE_BY_ONE, PACED, UNFLUSHED
from bench.workloads.throughput import COMPRESSED, CONSUMING, FLUSHED_PRODUCING, PRODUCING, produce

__all__ = [
    "AT_ONCE",
    "BATCHED",
    "CLIENTS",
    "FLUSHED",
    "GROWTHS",
    "IDLE_MEMORY",
    "KIB",
    "LOADED_MEMORY",
    "NAMES",
    "ONE_BY_ONE",
    "PACED",
    "QUICK_NAMES",
    "START",
    "START_SECONDS",
    "UNFLUSHED",
    "WORKLOADS",
    "Figure",
    "Growth",
    "Sample",
    "Workload",
    "at_least",
    "produce",
    "single",
    "sync",
]

WORKLOADS = (
    *PRODUCING,
    *CONSUMING,
    *COMPRESSED,
    *REQUESTS,
    *END_TO_END,
    CATCH_UP,
    *FLUSHED_PRODUCING,
    *FLUSHED_REQUESTS,
)
GROWTHS = (CLIENTS, PARTITIONS)

START = "start"
START_SECONDS = (at_most(0.2), at_most(0.1))
IDLE_MEMORY = (at_most(0.25), at_most(0.15))
LOADED_MEMORY = (at_most(0.3), at_most(0.2))
"""Requirements and goals."""
NAMES = (*(workload.name for workload in WORKLOADS), *(growth.name for growth in GROWTHS), START)
QUICK_NAMES = (*(workload.name for workload in WORKLOADS if workload.is_quick), START)
