"""`qanat pipeline history`: the past runs of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.app.client.target import HERE, Target
from qanat.app.client.target import run as connected
from qanat.app.terminal.listing import Output, Row, print_rows

if TYPE_CHECKING:
    from qanat.model.pipeline_runs import RunState

_COLUMNS = ("run", "started", "ended", "ran_ms", "outcome", "rows", "restarts", "master", "host", "error")


def history(name: str, /, *, output: Output = "table", target: Target = HERE) -> None:
    """Show the past runs of a pipeline, the newest first: the last 20.

        qanat pipeline history orders

    The outcome is stopped, finished, failed, fenced (by a newer run) or lost (it ended without a word).

    Parameters
    ----------
    name:
        The name of its runs.
    output:
        `table` for people, the others for programs.
    """
    from qanat.app.pipelines.run_lookup import find_run
    from qanat.spark.pipelines.runs.run_processes import phase_here
    from qanat.spark.pipelines.runs.run_topic import now_ms, read_runs

    runs = connected(target, read_runs)
    newest = find_run(runs, name)
    past = runs.history(name)
    if newest.ended_ms is None and phase_here(newest, now_ms()) == "lost":
        past = [newest, *past]
    print_rows([_row(one) for one in past], _COLUMNS, output, spare=("master", "host", "restarts"))


def _row(state: RunState) -> Row:
    from qanat.spark.pipelines.runs.run_processes import phase_here
    from qanat.spark.pipelines.runs.run_topic import now_ms
    from qanat.spark.pipelines.timestamps import shown

    ended_ms = state.ended_ms or state.updated_ms
    return {
        "run": state.run_id,
        "started": shown(state.started_ms),
        "ended": shown(ended_ms),
        "ran_ms": max(0, ended_ms - state.started_ms),
        "outcome": phase_here(state, now_ms()),
        "rows": state.rows,
        "restarts": state.restarts,
        "master": state.master,
        "host": state.host,
        "error": state.error,
    }
