"""A part as a child process: told what it does, ended when its time is over, and never left behind."""

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
"""What a part has to stop its servers after it was told to end."""
_LOOK_S = 0.2
_TELL_S = 15.0
_NO_WORD_S = 1.0
_OF_LIBRARIES = "%"
"""What librdkafka says of connections begins so: it belongs into the log."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child came to its end: nothing to say where it did what it was to do."""

    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return not self.reason


class _LastWords:
    """The newest line that a child wrote, read by a thread; all of them go into a file as well."""

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
        """A process that the child left behind may hold the pipe open: it is not waited for."""
        self._thread.join(_NO_WORD_S)
        if not self._thread.is_alive() and self._child.stderr is not None:
            self._child.stderr.close()


def run(command: Sequence[str], budget_s: float, what: str, log: Path, tell: Tell) -> Ended:
    """Run `python ...` until it ends by itself, or has had its time."""
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
    said = _LastWords(child, log)
    told = 0.0
    try:
        while child.poll() is None:
            elapsed = time.monotonic() - began
            if elapsed > budget_s:
                last = said.line or "starting"
                _end(child)
                return Ended(f"it was ended after its {_minutes(budget_s)}; last it said: {last}")
            if elapsed - told >= _TELL_S or not told:
                told = elapsed or _LOOK_S
                tell(f"{what}: {_minutes(elapsed)} of {_minutes(budget_s)}; {said.line or 'starting'}")
            time.sleep(_LOOK_S)
    except BaseException:
        _end(child)
        raise
    finally:
        _kill_group(child)
        said.join()
    if child.returncode:
        return Ended(f"it failed with code {child.returncode}: {said.line or 'it said nothing'}")
    return Ended()


def _end(child: subprocess.Popen[str]) -> None:
    """As a person would, so that it stops its servers; by force where that takes too long."""
    child.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)


def _kill_group(child: subprocess.Popen[str]) -> None:
    """Whatever it started and did not stop: its session is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
