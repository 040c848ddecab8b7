"""Work that is no streaming query and is watched like one: steps in a thread of their own, a report after each."""

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
    """One step in the words in which Spark tells of a micro-batch."""

    timestamp: str
    json: str


class Steps:
    """What work is given: it says how far it is, and asks whether it should end."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.must_end = False
        self._batch = 0
        self._begun = time.monotonic()

    def done(self, rows: int, left: int, newest_ms: int | None = None, written: int | None = None) -> None:
        """A step is done: rows looked at, rows that are left, the newest timestamp that is through."""
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


class Work:
    """A thread that works, with the face of a streaming query."""

    def __init__(self, name: str, act: Callable[[Steps], None]) -> None:
        self.id = uuid4()
        self.name = name
        self._act = act
        self._steps = Steps()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act(self._steps)
        except Exception as fault:  # noqa: BLE001 - it is told to whoever watches
            self._fault = fault

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": self.isActive}

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        return self._steps.reports[-1] if self._steps.reports else None

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return list(self._steps.reports)

    def exception(self) -> Exception | None:
        return None if self._thread.is_alive() else self._fault

    def goes_on_after(self, fault: Exception) -> bool:
        return False

    def stop(self) -> None:
        """End after the step at hand; one that takes too long is left to the end of the process."""
        self._steps.must_end = True
        self._thread.join(END_WITHIN_S)
