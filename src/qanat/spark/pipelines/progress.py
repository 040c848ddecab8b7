"""Progress of a query: Spark's reports, added up.

Spark reports each micro-batch once, and sometimes that nothing happened; both as JSON. A tally has what operators need:
rows a second, lag, watermark, state, dropped rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

    def plus(self, report: Mapping[str, Any]) -> Tally:
        """The tally with one more report."""
        operators = report.get("stateOperators") or []
        observed = (report.get("observedMetrics") or {}).get(OBSERVED) or {}
        rows = max(0, int(report.get("numInputRows") or 0))
        seconds = int((report.get("durationMs") or {}).get("triggerExecution") or 0) / 1000
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + rows,
            written=self.written + max(0, int((report.get("sink") or {}).get("numOutputRows") or 0)),
            seconds=self.seconds + seconds,
            rows_per_second=rows / seconds if rows and seconds else self.rows_per_second,
            lag=_lag(report.get("sources") or []),
            watermark=_watermark(report, observed) or self.watermark,
            state_rows=sum(int(one.get("numRowsTotal") or 0) for one in operators),
            state_bytes=sum(int(one.get("memoryUsedBytes") or 0) for one in operators),
            duplicates=self.duplicates
            + sum(_custom(one, "numDroppedDuplicateRows") for one in operators)
            + int(observed.get("duplicates") or 0),
            late=self.late
            + sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in operators)
            + int(observed.get("late") or 0),
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
    behind = [
        _offset(source["latestOffset"], topic, partition) - int(offset)
        for source in sources
        if isinstance(source.get("endOffset"), dict) and isinstance(source.get("latestOffset"), dict)
        for topic, offsets in source["endOffset"].items()
        for partition, offset in offsets.items()
    ]
    return sum(max(0, one) for one in behind) if behind else None


def _offset(latest: Mapping[str, Any], topic: str, partition: str) -> int:
    return int((latest.get(topic) or {}).get(partition, 0))
