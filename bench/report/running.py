"""A part as a child process: its progress, its end when its time is over, and the end of its children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20.0
"""How long a part may take to stop its servers after SIGINT."""
_LOOK_S = 0.2
_SHOW_S = 15.0
_NO_WORD_S = 1.0
_OF_LIBRARIES = "%"
"""Prefix of librdkafka's messages about connections, which go into the log only."""
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child; the reason is empty where it succeeded."""

    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return not self.reason


class _LastLine:
    """The last line of a child, read by a thread, which also writes all lines into a file."""

    def __init__(self, child: subprocess.Popen[str], log: Path) -> None:
        self.line = ""
        self._child = child
        self._log = log
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._child.stderr is not None
        with self._log.open("a") as log:
            for line in self._child.stderr:
                log.write(line)
                if line.strip() and not line.startswith(_OF_LIBRARIES):
                    self.line = line.strip()

    def join(self) -> None:
        """A child of the child may hold the pipe open: the thread is not waited for."""
        self._thread.join(_NO_WORD_S)
        if not self._thread.is_alive() and self._child.stderr is not None:
            self._child.stderr.close()


def run(command: Sequence[str], budget_s: float, what: str, log: Path, show: Show) -> Ended:
    """Run `python ...` until it ends, or its time is over."""
    began = time.monotonic()
    with log.open("a") as output:
        child = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    stderr = _LastLine(child, log)
    shown_at = 0.0
    try:
        while child.poll() is None:
            elapsed = time.monotonic() - began
            if elapsed > budget_s:
                last = stderr.line or "starting"
                _end(child)
                return Ended(f"it was ended after its {_minutes(budget_s)}; its last line: {last}")
            if elapsed - shown_at >= _SHOW_S or not shown_at:
                shown_at = elapsed or _LOOK_S
                show(f"{what}: {_minutes(elapsed)} of {_minutes(budget_s)}; {stderr.line or 'starting'}")
            time.sleep(_LOOK_S)
    except BaseException:
        _end(child)
        raise
    finally:
        _kill_group(child)
        stderr.join()
    if child.returncode:
        return Ended(f"it failed with code {child.returncode}: {stderr.line or 'it wrote nothing'}")
    return Ended()


def _end(child: subprocess.Popen[str]) -> None:
    """End it with SIGINT, so that it stops its servers; with SIGKILL where that takes too long."""
    child.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)


def _kill_group(child: subprocess.Popen[str]) -> None:
    """Kill the processes that it started and did not stop: it has a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
