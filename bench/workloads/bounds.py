"""Requirements and goals of ratios to Kafka that hold for several workloads.

A figure without a bound has no requirement; its goal is to be as good as Kafka (`PAR`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.workloads.settings import NEVER

CPU, CPU_GOAL = 0.7, 0.5
PAR = 1.0
FLUSHED_GOAL_RATE, FLUSHED_GOAL_TIME = 1.1, 0.9
"""With fsync on both sides, as good is required and a tenth better is the goal, which is more than chance."""


def is_flushed(topic: Mapping[str, str]) -> bool:
    return topic["flush.messages"] != NEVER


def cpu_bounds(topic: Mapping[str, str]) -> tuple[float, float]:
    """Requirement and goal of the broker's CPU time."""
    return (PAR, FLUSHED_GOAL_TIME) if is_flushed(topic) else (CPU, CPU_GOAL)
