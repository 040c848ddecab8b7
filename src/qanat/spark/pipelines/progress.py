"""Progress of a query: Spark's reports, added up.

Spark reports each micro-batch once, and sometimes that nothing happened; both as JSON. A tally has what operators need:
rows a second, lag, watermark, state, dropped rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qanat.spark.pipelines.timestamps import shown

OBSERVED = "qanat"
"""The name under which a pipeline's own step reports: dropped rows, and the time up to which windows are over."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The progress of a query so far."""

    query: str
    batches: int = 0
    rows: int = 0
    """Rows read."""
    written: int = 0
    """Rows written, if the sink reports them."""
    seconds: float = 0.0
    """Time spent in micro-batches."""
    rows_per_second: float = 0.0
    """Of the last micro-batch that had rows."""
    lag: int | None = None
    """Unread records when the last micro-batch ended."""
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    duplicates: int = 0
    late: int = 0
    """Rows that came after their windows were closed."""
    batch_seconds: float = 0.0
    """Of the last micro-batch."""
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By topic and partition: the next record that it reads."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """By topic: unread records when the last micro-batch ended."""
    restarts: int = 0
    """How often it started again after a fault of the machine."""

    def plus(self, report: Mapping[str, Any]) -> Tally:
        """The tally with one more report."""
        operators = report.get("stateOperators") or []
        observed = (report.get("observedMetrics") or {}).get(OBSERVED) or {}
        rows = max(0, int(report.get("numInputRows") or 0))
        sources = report.get("sources") or []
        seconds = int((report.get("durationMs") or {}).get("triggerExecution") or 0) / 1000
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + rows,
            written=self.written + max(0, int((report.get("sink") or {}).get("numOutputRows") or 0)),
            seconds=self.seconds + seconds,
            rows_per_second=rows / seconds if rows and seconds else self.rows_per_second,
            lag=_lag(sources),
            watermark=_watermark(report, observed) or self.watermark,
            state_rows=sum(int(one.get("numRowsTotal") or 0) for one in operators),
            state_bytes=sum(int(one.get("memoryUsedBytes") or 0) for one in operators),
            duplicates=self.duplicates
            + sum(_custom(one, "numDroppedDuplicateRows") for one in operators)
            + int(observed.get("duplicates") or 0),
            late=self.late
            + sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in operators)
            + int(observed.get("late") or 0),
            batch_seconds=seconds,
            offsets=_positions(sources) or self.offsets,
            lags=lags_of(sources),
        )


def is_batch(report: Mapping[str, Any]) -> bool:
    """Whether a report is of a micro-batch, and not of an idle trigger."""
    return "addBatch" in (report.get("durationMs") or {})


def _watermark(report: Mapping[str, Any], observed: Mapping[str, Any]) -> str | None:
    over_ms = observed.get("over_ms")
    if over_ms is not None:
        return shown(int(over_ms)) if int(over_ms) > 0 else None
    found: str | None = (report.get("eventTime") or {}).get("watermark")
    return found


def _custom(operator: Mapping[str, Any], name: str) -> int:
    return int((operator.get("customMetrics") or {}).get(name) or 0)


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    """The number of unread records; None where no source reports it."""
    behind = lags_of(sources)
    return sum(behind.values()) if behind else None


def lags_of(sources: list[Mapping[str, Any]]) -> dict[str, int]:
    """The number of unread records by topic, of sources that report it."""
    behind: dict[str, int] = {}
    for source in sources:
        if not isinstance(source.get("endOffset"), dict) or not isinstance(source.get("latestOffset"), dict):
            continue
        for topic, offsets in _by_topic(source["endOffset"]):
            unread = (_offset(source["latestOffset"], topic, one) - int(at) for one, at in offsets.items())
            behind[topic] = behind.get(topic, 0) + sum(max(0, one) for one in unread)
    return behind


def ends_of(sources: list[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The ends by topic and partition, as sources last saw them."""
    found: dict[str, dict[str, int]] = {}
    for source in sources:
        if isinstance(source.get("latestOffset"), dict):
            for topic, offsets in _by_topic(source["latestOffset"]):
                found.setdefault(topic, {}).update({one: int(at) for one, at in offsets.items()})
    return found


def _positions(sources: list[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The end of a micro-batch by topic and partition; of a topic that is read twice, the smaller one."""
    found: dict[str, dict[str, int]] = {}
    for source in sources:
        if isinstance(source.get("endOffset"), dict):
            for topic, offsets in _by_topic(source["endOffset"]):
                known = found.setdefault(topic, {})
                for partition, offset in offsets.items():
                    known[partition] = min(known.get(partition, int(offset)), int(offset))
    return {topic: offsets for topic, offsets in found.items() if topic}


def _by_topic(offsets: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Offsets of topics; sources of other formats report other values."""
    return [(topic, known) for topic, known in offsets.items() if isinstance(known, dict)]


def _offset(latest: Mapping[str, Any], topic: str, partition: str) -> int:
    return int((latest.get(topic) or {}).get(partition, 0))
