"""The progress bar of a bench run: records, rate and time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def load_progress(what: str, records: int | None, seconds: float | None) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal, by records or by time; call the result with records and seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, passed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[done]:,} records, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=records if records is not None else seconds, done=0, rate=0.0)

        def advance(done: int, passed: float) -> None:
            completed = done if records is not None else passed
            progress.update(task, completed=completed, done=done, rate=done / passed if passed else 0.0)

        yield advance
