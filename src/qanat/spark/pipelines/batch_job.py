"""Batch job: steps in a thread, with reports like those of a streaming query."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from qanat.spark.pipelines.timestamps import shown

END_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """One step in the form of Spark's progress reports."""

    timestamp: str
    json: str


class JobProgress:
    """The progress of a job: the job reports its steps, and checks whether it must end."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.must_end = False
        self._batch = 0
        self._begun = time.monotonic()

    def done(self, rows: int, left: int, newest_ms: int | None = None, written: int | None = None) -> None:
        """Report a step: its rows, the rows left, the newest timestamp done."""
        now = time.monotonic()
        document: dict[str, Any] = {
            "batchId": self._batch,
            "numInputRows": rows,
            "durationMs": {
                "addBatch": int((now - self._begun) * 1000),
                "triggerExecution": int((now - self._begun) * 1000),
            },
            "sources": [{"endOffset": {"": {"0": 0}}, "latestOffset": {"": {"0": left}}}],
            "sink": {"numOutputRows": rows if written is None else written},
        }
        if newest_ms is not None:
            document["eventTime"] = {"watermark": shown(newest_ms)}
        self._batch += 1
        self._begun = now
        self.reports.append(Report(f"{self._batch}", json.dumps(document)))


class BatchJob:
    """A job in a thread, with the interface of a streaming query."""

    def __init__(self, name: str, act: Callable[[JobProgress], None]) -> None:
        self.id = uuid4()
        self.name = name
        self.restarts = 0
        self._act = act
        self._progress = JobProgress()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act(self._progress)
        except Exception as fault:  # noqa: BLE001 - `exception` returns it to the watcher
            self._fault = fault

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": self.isActive}

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        return self._progress.reports[-1] if self._progress.reports else None

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return list(self._progress.reports)

    def exception(self) -> Exception | None:
        return None if self._thread.is_alive() else self._fault

    def resumes_after(self, fault: Exception) -> bool:
        return False

    @property
    def continues_by_launch(self) -> bool:
        """A job keeps its position at its target."""
        return True

    def stop(self) -> None:
        """End after the current step; a step that takes too long ends with the process."""
        self._progress.must_end = True
        self._thread.join(END_WITHIN_S)
