"""The journal of handlers: a line per event, so that it is true at whatever time a worker is killed.

    begin <handler> <partition> <offset> <number> <attempt> <when>    the handler was called
    end ...                                                           it is about to return
    failed ...                                                        it is about to raise
    cancelled ...                                                     it was cancelled

Times are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path

BEGIN, END, FAILED, CANCELLED = "begin", "end", "failed", "cancelled"


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a journal."""

    worker: int
    """The process."""
    what: str
    handler: str
    partition: int
    offset: int
    number: int
    """The record's own number."""
    attempt: int
    at_s: float


class Journal:
    """The journal of this worker, and of its handlers' processes; its file is made at the first line."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1

    def write(self, what: str, handler: str, partition: int, offset: int, number: int, attempt: int) -> None:
        if self._file < 0:
            worker = parent_process()
            path = self._folder / f"{os.getpid() if worker is None else worker.pid}.journal"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        line = f"{what} {handler} {partition} {offset} {number} {attempt} {time.monotonic():.6f}\n"
        os.write(self._file, line.encode())


class Journals:
    """The journals of all processes, read as they grow; a torn last line waits for its rest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.events: list[Event] = []

    def read(self) -> list[Event]:
        """What is new."""
        before = len(self.events)
        for path in sorted(self._folder.glob("*.journal")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text, line_end, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(text) + len(line_end)
            worker = int(path.stem)
            for line in text.decode().splitlines():
                what, handler, partition, offset, number, attempt, at_s = line.split()
                place = (int(partition), int(offset), int(number), int(attempt))
                self.events.append(Event(worker, what, handler, *place, float(at_s)))
        return self.events[before:]
