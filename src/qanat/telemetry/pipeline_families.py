"""Metrics of pipelines: of queries, as a run or an observer exports them, and of runs, as HTTP shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from qanat.model.pipeline_runs import QueryState, RunState, TopicLag
from qanat.telemetry.exposition import Family, Kind, Sample


class LabelledQuery(NamedTuple):
    """A query with the labels of its samples, at a time in milliseconds."""

    labels: Mapping[str, str]
    state: QueryState
    now_ms: int


class LabelledRun(NamedTuple):
    """A run, at a time in milliseconds."""

    state: RunState
    now_ms: int


_Queries = Sequence[LabelledQuery]
_Runs = Sequence[LabelledRun]


def _family(name: str, kind: Kind, meaning: str, read: Callable[[LabelledQuery], float | None]) -> Family[_Queries]:
    def collect(queries: _Queries) -> Iterator[Sample]:
        for query in queries:
            if (value := read(query)) is not None:
                yield Sample(query.labels, value)

    return Family(f"qanat_pipeline_{name}", kind, meaning, ("query",), collect)


def _topic_family(name: str, meaning: str, read: Callable[[TopicLag], float | None]) -> Family[_Queries]:
    def collect(queries: _Queries) -> Iterator[Sample]:
        for query in queries:
            for topic, lag in query.state.lag.items():
                if (value := read(lag)) is not None:
                    yield Sample({**query.labels, "topic": topic}, value)

    return Family(f"qanat_pipeline_{name}", "gauge", meaning, ("query", "topic"), collect)


def _run_family(name: str, kind: Kind, meaning: str, read: Callable[[LabelledRun], float]) -> Family[_Runs]:
    def collect(runs: _Runs) -> Iterator[Sample]:
        for run in runs:
            yield Sample({"pipeline": run.state.name}, read(run))

    return Family(f"qanat_pipeline_{name}", kind, meaning, ("pipeline",), collect)


def has_watermark(watermark: str | None) -> bool:
    """Whether there is a watermark: Spark begins with the year 1970, which is none."""
    return watermark is not None and not watermark.startswith("1970-01-01T00:00:00")


def _watermark(query: LabelledQuery) -> float | None:
    text = query.state.watermark
    return datetime.fromisoformat(text).timestamp() if text is not None and has_watermark(text) else None


def _watermark_delay(query: LabelledQuery) -> float | None:
    at = _watermark(query)
    return None if at is None else max(0.0, query.now_ms / 1000 - at)


QUERY_FAMILIES: tuple[Family[_Queries], ...] = (
    _family("batches_total", "counter", "Micro-batches done.", lambda one: one.state.batches),
    _family("batch_seconds_total", "counter", "Time spent in them.", lambda one: one.state.seconds),
    _family("batch_seconds", "gauge", "Time spent in the last one.", lambda one: one.state.batch_seconds),
    _family("rows_total", "counter", "Rows read.", lambda one: one.state.rows),
    _family("written_rows_total", "counter", "Rows written.", lambda one: one.state.written),
    _family(
        "rows_per_second",
        "gauge",
        "Speed of the last micro-batch that had rows.",
        lambda one: one.state.rows_per_second,
    ),
    _family("lag_records", "gauge", "Unread records of all topics.", lambda one: one.state.lag_records),
    _family("lag_seconds", "gauge", "Age of the oldest unread record.", lambda one: one.state.lag_seconds),
    _topic_family("topic_lag_records", "Unread records of a topic.", lambda one: one.records),
    _topic_family("topic_lag_seconds", "Age of the oldest unread record of a topic.", lambda one: one.seconds),
    _family("watermark_timestamp_seconds", "gauge", "Event time up to which windows are over.", _watermark),
    _family("watermark_delay_seconds", "gauge", "How far that is behind the clock.", _watermark_delay),
    _family("state_rows", "gauge", "Rows in the query's state.", lambda one: one.state.state_rows),
    _family("state_bytes", "gauge", "Memory of the query's state.", lambda one: one.state.state_bytes),
    _family("duplicate_rows_total", "counter", "Rows dropped as duplicates.", lambda one: one.state.duplicates),
    _family("late_rows_total", "counter", "Rows that the watermark dropped.", lambda one: one.state.late),
)
RUN_FAMILIES: tuple[Family[_Runs], ...] = (
    _run_family("up", "gauge", "Whether a run of the name is alive.", lambda one: int(one.state.is_alive(one.now_ms))),
    _run_family(
        "started_timestamp_seconds", "gauge", "When the newest run began.", lambda one: one.state.started_ms / 1000
    ),
    _run_family(
        "updated_timestamp_seconds", "gauge", "When it last wrote its state.", lambda one: one.state.updated_ms / 1000
    ),
    _run_family("restarts_total", "counter", "Restarts after faults of the machine.", lambda one: one.state.restarts),
)


def query_text(queries: Iterable[QueryState], now_ms: int) -> str:
    """Queries of this process, as Prometheus reads them."""
    labelled = [LabelledQuery({"query": one.query}, one, now_ms) for one in queries]
    return "".join(text for family in QUERY_FAMILIES for text in family.lines(labelled))


def run_text(runs: Iterable[RunState], now_ms: int) -> str:
    """Runs of a cluster, as Prometheus reads them: those that are over have no queries."""
    found = [LabelledRun(one, now_ms) for one in runs]
    queries = [
        LabelledQuery({"pipeline": one.state.name, "query": query.query}, query, now_ms)
        for one in found
        if one.state.is_alive(now_ms)
        for query in one.state.queries
    ]
    return "".join(text for family in RUN_FAMILIES for text in family.lines(found)) + "".join(
        text for family in QUERY_FAMILIES for text in family.lines(queries)
    )
