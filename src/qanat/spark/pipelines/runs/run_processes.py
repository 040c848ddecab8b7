"""The process behind a run: which one this is, and whether that of another run still exists on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from qanat.model.pipeline_runs import Phase, RunState
from qanat.spark.host_identity import host_identity


def process_start(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty where it does not exist or the kernel does not say."""
    try:
        # The name in parentheses may contain anything; the fields after it are numbers.
        state, *fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


def is_here(state: RunState) -> bool:
    """Whether a run belongs to this machine and user."""
    return state.host_identity == host_identity()


def is_gone(state: RunState) -> bool:
    """Whether the process of a run is known to be gone: it was of this machine, and is not there any more."""
    return is_here(state) and bool(state.process_start) and process_start(state.pid) != state.process_start


def is_running_here(state: RunState) -> bool:
    """Whether the process of a run can be signalled from here."""
    return is_here(state) and bool(state.process_start) and process_start(state.pid) == state.process_start


def phase_here(state: RunState, now_ms: int) -> Phase:
    """The phase as this machine knows it: the process of a run that was killed here is gone at once."""
    return "lost" if state.ended_ms is None and is_gone(state) else state.phase_at(now_ms)


def of_this_process(state: RunState) -> RunState:
    """The state of a run in this process."""
    pid = os.getpid()
    return replace(
        state,
        host=os.uname().nodename,
        pid=pid,
        process_start=process_start(pid),
        host_identity=host_identity(),
    )
