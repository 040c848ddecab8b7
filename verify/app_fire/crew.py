"""The workers: `qanat run --workers 2`, whose processes are killed and frozen, and a guest that comes and goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from qanat.app.child_processes import end_with_parent

WORKERS = 2
_STOP_S = 60.0
_LOOK_S = 0.05
_IDLE_S = 5.0
"""A worker that has handled nothing for so long has nothing to do: it may be killed all the same."""


class Crew:
    """All workers, and what happened to them."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder, self._address = folder, address
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._guest: subprocess.Popen[bytes] | None = None
        self.killed_s: dict[int, float] = {}
        self.frozen_s: dict[int, list[float]] = {}
        self.exit_codes: list[int] = []

    def start(self) -> None:
        self._supervisor = self._run("--workers", str(WORKERS))

    def _run(self, *options: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "qanat.app", "run", "verify.app_fire.handlers:app", *options]
        environment = {**os.environ, "APP_FIRE_SERVERS": self._address, "APP_FIRE_FOLDER": str(self._folder)}
        with (self._folder / "workers.log").open("ab") as log:
            # The workers end with this process, however that ends.
            return subprocess.Popen(line, stdout=log, stderr=log, env=environment, preexec_fn=end_with_parent())

    def workers(self) -> list[int]:
        """The processes of the supervisor that have handled records."""
        return [pid for pid in self._children() if (self._folder / f"{pid}.journal").exists()]

    def _children(self) -> list[int]:
        assert self._supervisor is not None
        pid = self._supervisor.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill_one(self, random: Random) -> None:
        """Kill a worker with -9; its supervisor starts another one."""
        pid = random.choice(self._some())
        os.kill(pid, signal.SIGKILL)
        self.killed_s[pid] = time.monotonic()

    def freeze_one(self, random: Random, seconds: float) -> None:
        """Stop a worker for longer than its session: others take its partitions meanwhile."""
        pid = random.choice(self._some())
        self.frozen_s.setdefault(pid, []).append(time.monotonic())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def change_guest(self) -> None:
        """A further worker comes; the next time it goes, as by SIGTERM, and nothing of its work may run again."""
        if self._guest is None:
            self._guest = self._run()
        else:
            self._end(self._guest)
            self._guest = None

    def _some(self) -> list[int]:
        began = time.monotonic()
        while not (found := self.workers()):
            waited = time.monotonic() - began
            if waited > _IDLE_S and (found := self._children()):
                return found  # All records so far are handled.
            assert waited < _STOP_S, "no worker starts"
            time.sleep(_LOOK_S)
        return found

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        code = process.wait(_STOP_S)
        has_begun = (self._folder / f"{process.pid}.journal").exists() or process is self._supervisor
        if code == -signal.SIGTERM and not has_begun:
            return  # It was still being loaded, and Python's own handling of the signal ended it: it had done nothing.
        self.exit_codes.append(code)

    def stop(self) -> None:
        """Stop all as by SIGTERM."""
        for process in (self._guest, self._supervisor):
            if process is not None and process.poll() is None:
                self._end(process)

    def kill_all(self) -> None:
        for process in (self._guest, self._supervisor):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
