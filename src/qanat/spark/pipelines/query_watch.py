"""Query watch: progress, end and stop of running queries; a stop lets the current micro-batch finish.

A second request to stop does not wait; the next run repeats the unfinished micro-batch, which is harmless.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.progress import Tally, is_batch
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_faults import MachineFaultError, machine_fault, text_of

LOOK_EVERY_S = 0.5
FINISH_WITHIN_S = 120.0


class Running(Protocol):
    """A running query: of Spark (`query`), or a job with the same interface (`batch_job`)."""

    @property
    def id(self) -> Any: ...
    @property
    def name(self) -> str | None: ...
    @property
    def restarts(self) -> int: ...
    @property
    def isActive(self) -> bool: ...  # noqa: N802
    @property
    def status(self) -> dict[str, Any]: ...
    @property
    def lastProgress(self) -> Any: ...  # noqa: N802
    @property
    def recentProgress(self) -> Any: ...  # noqa: N802
    def exception(self) -> Exception | None: ...
    def stop(self) -> None: ...
    def resumes_after(self, fault: Exception) -> bool: ...
    @property
    def continues_by_launch(self) -> bool: ...


class Stop:
    """Requests to stop the pipeline: after one it finishes its micro-batch, after two it stops at once."""

    def __init__(self) -> None:
        self.times_requested = 0
        self.fenced_by: str | None = None
        """Why this run may not go on, where a newer one of its name has begun."""

    def request(self) -> None:
        self.times_requested += 1

    def fence(self, reason: str) -> None:
        """Stop at once: the newer run continues from the same checkpoint."""
        self.fenced_by = reason
        self.times_requested += 2


class Watched:
    """A query and its tally."""

    def __init__(self, query: Running, tally: Tally | None = None) -> None:
        self.query = query
        self.tally = tally or Tally(query.name or str(query.id))
        self._last_batch = -1
        self._last_report = ""

    def look(self) -> None:
        """Add the reports since the last look."""
        if self.query.restarts != self.tally.restarts:
            self.tally = replace(self.tally, restarts=self.query.restarts)
        last = self.query.lastProgress
        if last is None or last.timestamp == self._last_report:
            return
        self._last_report = last.timestamp
        for report in map(json.loads, (one.json for one in self.query.recentProgress)):
            if report["batchId"] > self._last_batch and is_batch(report):
                self.tally = self.tally.plus(report)
                self._last_batch = report["batchId"]

    @property
    def is_idle(self) -> bool:
        return not self.query.isActive or not self.query.status["isTriggerActive"]

    @property
    def batches(self) -> int:
        return self.tally.batches


def watch(
    stages: Generator[Sequence[Running], None, None], stop: Stop, show: Callable[[list[Tally]], None] = lambda _: None
) -> list[Tally]:
    """Run every stage to its end; returns the tally of each query.

    Raises `PipelineError` when one fails, and `MachineFaultError` where another launch continues it.
    """
    done: list[Tally] = []
    with closing(stages):
        for queries in stages:
            watched = [Watched(query) for query in queries]
            try:
                _until_ended(watched, stop, done, show)
                done += [one.tally for one in watched]
            finally:
                for query in queries:
                    query.stop()
            if stop.times_requested:
                break
    return done


def _until_ended(watched: list[Watched], stop: Stop, done: list[Tally], show: Callable[[list[Tally]], None]) -> None:
    while True:
        is_over = not any(one.query.isActive for one in watched)
        for one in watched:
            one.look()
        show([*done, *(one.tally for one in watched)])
        for one in watched:
            if (fault := one.query.exception()) is None:
                continue
            if stop.times_requested or not one.query.resumes_after(fault):
                raise _end_of(one, fault)
            is_over = False
        if is_over:
            return
        if stop.times_requested:
            _finish(watched, stop)
            return
        time.sleep(LOOK_EVERY_S)


def _end_of(one: Watched, fault: Exception) -> PipelineError | MachineFaultError:
    """The error with which a fault ends the launch."""
    sentence = machine_fault(text_of(fault)) if one.query.continues_by_launch else None
    if sentence is not None:
        return MachineFaultError(f"{one.tally.query}: {sentence}")
    return PipelineError(f"{one.tally.query} failed: {spark_reason(fault)}")


def _finish(watched: list[Watched], stop: Stop) -> None:
    """Wait for the current micro-batches, and stop each query as soon as its own is done."""
    begun = [one.batches for one in watched]
    deadline = time.monotonic() + FINISH_WITHIN_S
    left = list(range(len(watched)))
    while left and stop.times_requested < 2 and time.monotonic() < deadline:
        for index in list(left):
            one = watched[index]
            one.look()
            if one.is_idle or one.batches > begun[index]:
                one.query.stop()
                left.remove(index)
        time.sleep(LOOK_EVERY_S / 5)
    for index in left:
        watched[index].query.stop()
