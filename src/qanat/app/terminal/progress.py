"""What takes long says on a terminal how far it is; anywhere else it is quiet."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_status(before: str = "") -> Iterator[Callable[[str], None]]:
    """A line that says what is being done at the moment, gone at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(f"{before}{text} ...")


@contextmanager
def told_bytes(what: str, total_bytes: int | None, pieces: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """A bar, or a count where the end is not known; it is told the bytes and the pieces that are done."""
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

        def tell(size: int, done: int) -> None:
            progress.update(task, completed=size, done=done)

        yield tell


@contextmanager
def told_count(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of records; it is told how many are done."""
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
    """How many bytes a file still holds; None for what is none."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        return found.st_size - os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None
