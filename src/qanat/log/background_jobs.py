"""Slow file work, cut in three: decided on the owner's thread, run on a worker, finished on the owner's thread.

A log is owned by one thread (the event loop). What would block it is handed out
as a job. `run` may touch only the files and the frozen values that the job was
given; whatever changes the log itself happens in `finish`. Under simulation,
and in tools, `run_now` does both at once.
"""

from __future__ import annotations

from typing import Protocol


class Job(Protocol):
    """Work that a log has decided on."""

    def run(self) -> None:
        """The blocking part, on a worker. May raise `StorageError`; then `finish` is not called."""
        ...

    def finish(self) -> None:
        """Install the outcome, on the owner's thread."""
        ...


def run_now(job: Job | None) -> None:
    """Do a job here and now."""
    if job is not None:
        job.run()
        job.finish()
