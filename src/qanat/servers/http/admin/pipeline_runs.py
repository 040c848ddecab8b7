"""Runs of pipelines, read from `__qanat_pipelines`: those who may read that topic see them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from qanat.model.error_codes import ErrorCode
from qanat.model.pipeline_runs import Phase, PipelineRuns, RunState
from qanat.model.spelling import did_you_mean
from qanat.model.topic_names import PIPELINES_TOPIC as TOPIC
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation
from qanat.servers.http.paging import PageQuery, page_of
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.partition_reads import EARLIEST, LATEST
from qanat.servers.http.records.record_parsing import now_ms
from qanat.servers.http.reply import Reply
from qanat.telemetry.exposition import CONTENT_TYPE
from qanat.telemetry.pipeline_families import run_text

_BYTES = 4 * 1024 * 1024


class RunView(msgspec.Struct):
    """The newest run of a pipeline."""

    name: str
    state: Phase
    """`lost`: it ended without a word."""
    run_id: str
    host: str
    pid: int
    master: str
    started_ms: int
    updated_ms: int
    ended_ms: int | None
    rows: int
    rows_per_second: float
    lag_records: int | None
    lag_seconds: float | None
    restarts: int
    error: str | None


class RunPage(msgspec.Struct):
    """Some pipelines."""

    pipelines: list[RunView]
    next_page_token: str | None


class PipelineView(msgspec.Struct):
    """A pipeline: its newest run with everything that is known of it, and its past runs."""

    run: RunState
    history: list[RunView]
    """Newest first."""


async def list_pipelines(exchange: Exchange) -> RunPage:
    runs = await _read(exchange)
    shown, token = page_of(sorted(runs.current), str, exchange.query)
    return RunPage([_view(runs.current[name]) for name in shown], token)


async def describe_pipeline(exchange: Exchange) -> PipelineView:
    runs = await _read(exchange)
    name = exchange.path["pipeline"]
    state = runs.current.get(name)
    if state is None:
        known = sorted(runs.current)
        hint = did_you_mean(name, known, f"there are {', '.join(known[:20])}" if known else "there is none yet")
        raise Problem(404, f"no pipeline {name} has run in this cluster{hint}", error=ErrorCode.RESOURCE_NOT_FOUND)
    return PipelineView(replace(state, phase=state.phase_at(now_ms())), [_view(one) for one in runs.history(name)])


async def pipeline_metrics(exchange: Exchange) -> Reply:
    runs = await _read(exchange)
    return Reply(200, run_text(runs.current.values(), now_ms()).encode(), CONTENT_TYPE.encode())


def _view(state: RunState) -> RunView:
    return RunView(
        state.name,
        state.phase_at(now_ms()),
        state.run_id,
        state.host,
        state.pid,
        state.master,
        state.started_ms,
        state.updated_ms,
        state.ended_ms,
        state.rows,
        state.rows_per_second,
        state.lag_records,
        state.lag_seconds,
        state.restarts,
        state.error,
    )


async def _read(exchange: Exchange) -> PipelineRuns:
    """The content of the topic, which is compacted and therefore small; none where there is no such topic."""
    context, caller = exchange.context, exchange.caller
    runs = PipelineRuns()
    try:
        await context.topics.find(caller, TOPIC, may_create=False)
    except Problem as fault:
        if fault.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return runs
        raise
    position = (await context.reads.offsets_at(caller, TOPIC, [0], EARLIEST))[0]
    end = (await context.reads.offsets_at(caller, TOPIC, [0], LATEST))[0]
    while position < end:
        (row,) = await context.reads.fetch(
            caller, TOPIC, {0: position}, max_bytes=_BYTES, wait_ms=0, is_committed=False
        )
        if row.error_code:
            raise problem_of(row.error_code, f"topic {TOPIC}")
        before = position
        opened = context.reads.opened(row, before)
        while (records := await opened.next()) is not None:
            for _, _, raw in records:
                runs.apply(raw[3], raw[4])
        position = opened.next_offset
        if position == before:
            raise problem_of(ErrorCode.OFFSET_NOT_AVAILABLE, f"topic {TOPIC}")
    return runs


OPERATIONS = (
    Operation(
        "GET", "/api/v1/pipelines", list_pipelines, "List pipelines", "pipelines", query=PageQuery, answer=RunPage
    ),
    Operation(
        "GET",
        "/api/v1/pipelines/{pipeline}",
        describe_pipeline,
        "Describe the runs of a pipeline",
        "pipelines",
        answer=PipelineView,
    ),
    Operation(
        "GET",
        "/metrics/pipelines",
        pipeline_metrics,
        "Lag, speed and state of all pipelines of the cluster, for Prometheus",
        "pipelines",
        answers={"text/plain": str},
    ),
)
