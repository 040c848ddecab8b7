"""Background jobs: slow file work in three steps, begun by the owner, run in a worker, finished by the owner.

One thread owns a log (the event loop). Work that would block it becomes a
job. `run` touches only the files and the frozen values that the job holds;
`finish` makes every change to the log itself. Under simulation,
and in tools, `run_now` does both in one call.
"""

from __future__ import annotations

from typing import Protocol


class Job(Protocol):
    """Work that a log has decided on."""

    def run(self) -> None:
        """The blocking part, in a worker. May raise `StorageError`; then `finish` is not called."""
        ...

    def finish(self) -> None:
        """Install the outcome, on the owner's thread."""
        ...


def run_now(job: Job | None) -> None:
    """Run and finish a job here."""
    if job is not None:
        job.run()
        job.finish()
