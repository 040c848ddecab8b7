"""Progress of long commands, on a terminal only: status lines and bars on stderr."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def status_line(before: str = "") -> Iterator[Callable[[str], None]]:
    """A status line, removed at the end; call the result with its text."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(f"{before}{text} ...")


@contextmanager
def byte_progress(what: str, total_bytes: int | None, pieces: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """A bar, or a count where the total is unknown; call the result with the bytes and pieces done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda size, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[done]:,} " + pieces),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total_bytes, done=0)

        def advance(size: int, done: int) -> None:
            progress.update(task, completed=size, done=done)

        yield advance


@contextmanager
def count_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of records; call the result with the number done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("records"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def size_of(descriptor: int) -> int | None:
    """How many bytes a file still holds; None where it is not a regular file."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        return found.st_size - os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None
