"""Apps that a broker runs in processes of their own: what these report, and what the broker counts of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

REPORT_S = 1.0
"""How often a worker reports."""
REPORT_BYTES_MAX = 256 * 1024
"""A longer line is no report."""


class HandlerCounts(msgspec.Struct, frozen=True):
    """What one handler has done in one process."""

    handler: str
    group: str
    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    skipped: int = 0

    def plus(self, other: HandlerCounts) -> HandlerCounts:
        return HandlerCounts(
            self.handler,
            self.group,
            self.handled + other.handled,
            self.failed + other.failed,
            self.retried + other.retried,
            self.dead_lettered + other.dead_lettered,
            self.skipped + other.skipped,
        )


class WorkerReport(msgspec.Struct, frozen=True):
    """One line of a worker."""

    is_started: bool = False
    """Whether its consumers have begun."""
    problem: str = ""
    """Why its handlers make no progress, or why it ends; empty where all is well."""
    counts: tuple[HandlerCounts, ...] = ()
    is_ending: bool = False
    """Whether it is the last one."""


@dataclass(slots=True)
class HandlerProcess:
    """One worker process, as the broker sees it."""

    number: int
    pid: int = 0
    """0 where no process runs."""
    report: WorkerReport = field(default_factory=WorkerReport)
    """The last one."""
    problem: str = ""
    """Why the last process ended; empty where none has since the last good report."""

    @property
    def is_running(self) -> bool:
        """Whether it handles records."""
        return bool(self.pid) and self.report.is_started

    @property
    def state(self) -> Literal["running", "failing", "starting"]:
        """`running`, `failing` or `starting`."""
        if self.problem or self.report.problem:
            return "failing"
        return "running" if self.is_running else "starting"


@dataclass(slots=True)
class HandlerApp:
    """One app of `handlers.apps`."""

    name: str
    workers: list[HandlerProcess]
    restarts: int = 0
    killed: int = 0
    """Processes that were killed because they were silent."""
    ended: dict[tuple[str, str], HandlerCounts] = field(default_factory=dict)
    """What processes did that are gone, by handler and group."""

    def note_end(self, worker: HandlerProcess) -> None:
        """A process is gone: keep what it counted."""
        for one in worker.report.counts:
            self._add(self.ended, one)
        worker.pid, worker.report = 0, WorkerReport()

    def counts(self) -> Iterator[HandlerCounts]:
        """What all processes have done since the broker started, by handler."""
        total = dict(self.ended)
        for worker in self.workers:
            for one in worker.report.counts:
                self._add(total, one)
        yield from total.values()

    @staticmethod
    def _add(total: dict[tuple[str, str], HandlerCounts], one: HandlerCounts) -> None:
        key = one.handler, one.group
        total[key] = total[key].plus(one) if key in total else one
