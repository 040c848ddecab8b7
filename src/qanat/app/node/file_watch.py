"""Files that are read again when they change: certificates, keys, credentials.

Rule 1: what cannot be used is an event, and what was read before stays in force; the next change is tried again.
Rule 2: files are looked at and read in a worker: a slow disk does not hold requests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from qanat.model.errors import QanatError
from qanat.telemetry.events import log_event

LOOK_S = 1.0
_Stamp = tuple[int, int, int] | None


@dataclass(slots=True)
class _Watched:
    path: str
    reload: Callable[[], None]
    on_failed: Callable[[], None]
    stamp: _Stamp = field(default=None)


def _nothing() -> None:
    pass


class FileWatch:
    """Watches files by their time, size and inode: also where a name is a link that is pointed elsewhere."""

    def __init__(self, look_s: float = LOOK_S) -> None:
        self._look_s = look_s
        self._watched: list[_Watched] = []
        self._task: asyncio.Task[None] | None = None

    def watch(self, paths: Iterable[str], reload: Callable[[], None], on_failed: Callable[[], None] = _nothing) -> None:
        """Call `reload` in a worker when one of the files changes; `on_failed` where it raises."""
        for path in paths:
            self._watched.append(_Watched(path, reload, on_failed, _stamp(path)))

    def start(self) -> None:
        if self._watched:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            await asyncio.to_thread(self._look)

    def _look(self) -> None:
        for one in self._watched:
            stamp = _stamp(one.path)
            if stamp == one.stamp:
                continue
            one.stamp = stamp
            try:
                one.reload()
            except QanatError as fault:
                one.on_failed()
                log_event("changed file is not used", level="error", file=one.path, reason=str(fault))
            else:
                log_event("changed file is in use", file=one.path)


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
