"""What is required of Qanat beside Kafka, and what is aimed at, where the same bound holds for several workloads.

What has no bound of its own here is required of nobody; the goal is then to be as good as Kafka (`PAR`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.workloads.settings import NEVER

CPU, CPU_GOAL = 0.7, 0.5
PAR = 1.0
FLUSHED_GOAL_RATE, FLUSHED_GOAL_TIME = 1.1, 0.9
"""With fsync on both sides, no worse is required and better is the goal: by a tenth, which is more than chance."""


def is_flushed(topic: Mapping[str, str]) -> bool:
    return topic["flush.messages"] != NEVER


def cpu_bounds(topic: Mapping[str, str]) -> tuple[float, float]:
    """What the broker's CPU time may be, and should be."""
    return (PAR, FLUSHED_GOAL_TIME) if is_flushed(topic) else (CPU, CPU_GOAL)
