"""`qanat pipeline status`: what runs where, how fast and how far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, duration, print_rows
from qanat.app.terminal.printable import printable
from qanat.app.terminal.watch import ONCE, Watch, show

if TYPE_CHECKING:
    from qanat.model.pipeline_runs import PipelineRuns, QueryState, RunState

_COLUMNS = (
    *("pipeline", "state", "rows", "rows_per_second", "lag", "time_lag_ms", "watermark", "restarts"),
    *("host", "pid", "age_ms", "error"),
)
_QUERY_COLUMNS = (
    *("query", "topic", "batches", "rows", "rows_per_second", "lag", "time_lag_ms", "watermark", "state_rows"),
    "state_bytes",
)


def status(name: str | None = None, /, *, output: Output = "table", watch: Watch = ONCE, target: Target = HERE) -> None:
    """Show the runs of pipelines, from any machine that reaches the brokers.

        qanat pipeline status
        qanat pipeline status orders --watch
        qanat pipeline status orders -o json

    A run that ended without a word is `lost` once its state is older than a minute.

    Parameters
    ----------
    name:
        One run, with all that is known of it.
    output:
        `table` for people, the others for programs.
    """
    from qanat.spark.pipelines.runs.run_topic import read_runs

    show(target, watch, read_runs, lambda runs: _print_one(runs, name, output) if name else _print_all(runs, output))


def _print_all(runs: PipelineRuns, output: str) -> None:
    rows = [_row(state) for _, state in sorted(runs.current.items())]
    print_rows(rows, _COLUMNS, output, spare=("watermark", "restarts", "pid", "host"))


def _row(state: RunState) -> Row:
    from qanat.app.pipelines.progress_display import watermark_of
    from qanat.spark.pipelines.runs.run_processes import phase_here
    from qanat.spark.pipelines.runs.run_topic import now_ms

    now = now_ms()
    return {
        "pipeline": state.name,
        "state": phase_here(state, now),
        "run": state.run_id,
        "rows": state.rows,
        "rows_per_second": state.rows_per_second,
        "lag": state.lag_records,
        "time_lag_ms": _ms(state.lag_seconds),
        "watermark": min(filter(None, map(watermark_of, state.queries)), default=None),
        "restarts": state.restarts,
        "host": state.host,
        "pid": state.pid,
        "age_ms": max(0, (state.ended_ms or now) - state.started_ms),
        "error": state.error,
    }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _print_one(runs: PipelineRuns, name: str, output: str) -> None:
    import msgspec

    from qanat.app.pipelines.run_lookup import find_run
    from qanat.spark.pipelines.runs.run_processes import phase_here
    from qanat.spark.pipelines.runs.run_topic import now_ms

    state = find_run(runs, name)
    shown = msgspec.structs.replace(state, phase=phase_here(state, now_ms()))
    if output != "table":
        document = msgspec.to_builtins(shown)
        if output == "json":
            print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
            return
        print_rows([{**_row(state), "definition": state.definition}], _COLUMNS, output)
        return
    for key, value in _facts(shown).items():
        print(printable(f"{key:<12}{value}"))
    rows = [row for query in state.queries for row in _query_rows(query)]
    if rows:
        print()
        print_rows(rows, _QUERY_COLUMNS, output, spare=("state_bytes", "state_rows", "batches"))


def _facts(state: RunState) -> dict[str, object]:
    from qanat.spark.pipelines.timestamps import shown

    facts: dict[str, object] = {
        "pipeline": state.name,
        "state": state.phase,
        "definition": state.pipeline,
        "settings": ", ".join(f"{key}={value}" for key, value in state.settings.items()),
        "run": state.run_id,
        "process": f"{state.pid} on {state.host}",
        "master": state.master,
        "checkpoint": state.checkpoint,
        "log": state.log,
        "since": shown(state.started_ms),
        "ended": None if state.ended_ms is None else f"{shown(state.ended_ms)} (ran {_ran(state)})",
        "updated": shown(state.updated_ms),
        "restarts": state.restarts or None,
        "error": state.error,
    }
    return {key: value for key, value in facts.items() if value not in (None, "")}


def _ran(state: RunState) -> str:
    return duration(max(0, (state.ended_ms or 0) - state.started_ms))


def _query_rows(query: QueryState) -> list[Row]:
    from qanat.app.pipelines.progress_display import watermark_of

    row: Row = {
        "query": query.query,
        "batches": query.batches,
        "rows": query.rows,
        "rows_per_second": query.rows_per_second,
        "watermark": watermark_of(query),
        "state_rows": query.state_rows,
        "state_bytes": query.state_bytes,
    }
    if not query.lag:
        return [{**row, "topic": None, "lag": None, "time_lag_ms": None}]
    return [
        {**row, "topic": topic or None, "lag": lag.records, "time_lag_ms": _ms(lag.seconds)}
        for topic, lag in query.lag.items()
    ]
