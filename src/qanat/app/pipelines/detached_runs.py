"""Detached runs: `qanat pipeline run` as a process of its own, with a log, that outlives the command that starts it.

A folder for each name and cluster has the log, the command for `restart`, and client settings, which no list of
processes should show. Only its owner may read it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from qanat.app.client.target import Target
from qanat.app.client.target import run as connected
from qanat.app.pipelines.pipeline_runner import LOG_FILE
from qanat.app.terminal.progress import status_line
from qanat.model.errors import QanatError
from qanat.model.pipeline_runs import RunState
from qanat.spark.pipelines.runs.run_topic import read_runs

_LOOK_EVERY_S = 0.3


class SubmitError(QanatError):
    """A run that did not start."""


@dataclass(frozen=True, slots=True)
class DetachedCommand:
    """How a run was started, for `restart`."""

    words: list[str]
    folder: str
    """The working directory: paths in pipelines may be relative."""
    definition: str
    """A digest of the pipeline's text."""


def run_folder(name: str, bootstrap: str) -> Path:
    """The folder of a name and cluster, by the XDG specification."""
    state = os.environ.get("XDG_STATE_HOME", "")
    root = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return root / "qanat" / "pipelines" / f"{name}-{hashlib.sha256(bootstrap.encode()).hexdigest()[:8]}"


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def store_command(folder: Path, command: DetachedCommand, client: Mapping[str, str]) -> None:
    """Store what the run needs; the words refer to the client settings."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    _write(folder / "client.properties", "".join(f"{name}={value}\n" for name, value in client.items()))
    _write(folder / "command.json", json.dumps(asdict(command)))


def stored_command(log: str | None) -> DetachedCommand | None:
    """The command of a run by its log; None where this machine does not have it."""
    if log is None:
        return None
    try:
        return DetachedCommand(**json.loads((Path(log).parent / "command.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def client_file(folder: Path) -> Path:
    return folder / "client.properties"


def start_detached(name: str, folder: Path, command: DetachedCommand, target: Target, wait_s: float) -> RunState | None:
    """Start the run; returns its state once it runs or has ended well, None where it still starts after `wait_s`.

    Raises the run's own sentence where it does not start.
    """
    log = folder / "run.log"
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "qanat.app", *command.words],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=command.folder,
            start_new_session=True,
            env={**os.environ, LOG_FILE: str(log)},
        )
    deadline = time.monotonic() + wait_s
    with status_line() as report_progress:
        report_progress(f"starting pipeline {name}")
        while time.monotonic() < deadline:
            code = process.poll()
            state = connected(target, read_runs).current.get(name)
            if state is not None and state.pid == process.pid and state.phase != "starting":
                if state.phase == "failed":
                    raise SubmitError(f"pipeline {name} failed: {state.error}; its log is {log}")
                return state
            if code is not None:
                raise SubmitError(f"pipeline {name} did not start: {last_line(log, begin)}")
            time.sleep(_LOOK_EVERY_S)
    return None


def last_line(log: Path, begin: int) -> str:
    """The last line that the run printed."""
    with log.open("rb") as source:
        source.seek(begin)
        lines = [line for line in source.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:500].removeprefix("qanat: ") if lines else f"it printed no reason; its log is {log}"


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as sink:
        sink.write(text)


def words_of(pairs: Mapping[str, Sequence[str]]) -> list[str]:
    """
    >>> words_of({"--conf": ["a=1", "b=2"], "--checkpoint": []})
    ['--conf', 'a=1', '--conf', 'b=2']
    """
    return [word for flag, values in pairs.items() for value in values for word in (flag, value)]
