"""A run by its name, or the nearest name."""

from __future__ import annotations

from qanat.model.errors import QanatError
from qanat.model.pipeline_runs import PipelineRuns, RunState
from qanat.model.spelling import did_you_mean


class UnknownRunError(QanatError):
    """There never was a run of that name in this cluster."""


def find_run(runs: PipelineRuns, name: str) -> RunState:
    state = runs.current.get(name)
    if state is None:
        known = sorted(runs.current)
        hint = did_you_mean(name, known, f"there are {', '.join(known)}" if known else "there is none yet")
        raise UnknownRunError(f"no pipeline {name} has run in this cluster{hint}")
    return state
