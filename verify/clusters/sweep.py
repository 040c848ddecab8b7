"""Sweeps over seeds: as many runs as time allows, in several processes, resumable from a file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from msgspec import Struct, field
from msgspec.json import Decoder, encode

from verify.clusters.run import ClusterRun, Report

_AHEAD = 4
"""Seeds queued for each process."""
_ENDING = (signal.SIGINT, signal.SIGTERM)


class Totals(Struct):
    """The sums over the runs of a sweep."""

    seeds: int = 0
    virtual_s: float = 0.0
    acknowledged: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    failed: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.virtual_s += report.virtual_s
        self.acknowledged += report.acknowledged
        for name, times in report.faults.items():
            self.faults[name] = self.faults.get(name, 0) + times
        if report.problems:
            self.failed.append(report)


class Notebook:
    """The reports so far, a line for each seed in a file: a sweep that was stopped resumes there."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.reports: list[Report] = []
        if path is not None and path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]  # The last line may be torn.
            path.write_bytes(whole + b"\n" if whole else b"")
            self.reports = Decoder(Report).decode_lines(whole)

    def left(self, seeds: Iterable[int]) -> Iterator[int]:
        done = {report.seed for report in self.reports}
        return (seed for seed in seeds if seed not in done)

    def note(self, report: Report) -> None:
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(encode(report) + b"\n")


def run_seed(seed: int) -> Report:
    return ClusterRun(seed).run()


def run_twice(seed: int) -> Report:
    """Run a seed twice: two different traces are a failure as well."""
    first, second = run_seed(seed), run_seed(seed)
    if first.trace != second.trace:
        second.problems.append(f"two traces of one seed: {first.trace[:16]} and {second.trace[:16]}")
    return second


def reports(
    act: Callable[[int], Report], seeds: Iterable[int], seconds: float | None, jobs: int
) -> Generator[Report, None, None]:
    """The reports of these seeds, until the time is up."""
    started = time.monotonic()
    left = iter(seeds)

    def is_over() -> bool:
        return seconds is not None and time.monotonic() - started >= seconds

    if jobs == 1:
        for seed in left:
            if is_over():
                return
            yield act(seed)
        return
    with _processes(jobs) as pool:
        while not is_over() and (piece := list(islice(left, jobs * _AHEAD))):
            # Not `map`: it cancels futures without a waiter, and a pool whose processes end fails on that.
            with _undisturbed():
                handed_out = [pool.submit(act, seed) for seed in piece]
            for future in handed_out:
                yield future.result()


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end with the sweep, and with this process, even where it is killed."""
    word, held = Pipe(duplex=False)
    with word, held, ProcessPoolExecutor(jobs, initializer=_end_with, initargs=(word, held)) as pool:
        try:
            yield pool
        except BaseException:
            held.close()  # The seeds that they run are not wanted any more.
            raise


def _end_with(word: Connection, held: Connection) -> None:
    """In a process of the pool: exit at once when only such processes hold the other end of the pipe."""
    held.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one handles it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def listen() -> None:
        word.poll(None)  # Nothing is ever sent.
        os._exit(1)

    Thread(target=listen, name="end-with-parent", daemon=True).start()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Defer the signals that end a sweep: during a fork, a signal may get lost or leave half a pool."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
