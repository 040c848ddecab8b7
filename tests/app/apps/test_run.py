"""`qanat run`: workers, restarts, signals, reloads, and errors in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qanat.app.apps.app_lookup import load_app
from qanat.app.apps.source_watch import changed, stamps
from qanat.app.handlers.restarts import Restarts
from qanat.model.errors import QanatError

HANDLERS = """
import asyncio, os, sys
from qanat.client.app.app import App

app = App("127.0.0.1:1", grace="{grace}", bootstrap_timeout_ms=500)

class Worker:
    '''Says what it does: a worker without a broker.'''
    async def run(self, *, has_signals):
        import signal
        loop, self.stopping, self.signals = asyncio.get_running_loop(), asyncio.Event(), 0
        def on_signal():
            self.signals += 1
            self.stopping.set()
        loop.add_signal_handler(signal.SIGTERM, on_signal)
        os.write(1, f"started {{os.getpid()}}\\n".encode())  # In one piece: several workers write to one pipe.
        await self.stopping.wait()
        os.write(1, b"stopped\\n")

@app.stream("orders")
async def bill(order: bytes) -> None: ...

async def serve(*, has_signals=False):
    await Worker().run(has_signals=has_signals)
app.serve = serve
"""


@contextmanager
def command(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "qanat.app", "run", *arguments],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def started(process: subprocess.Popen[str]) -> int:
    """The pid of the next worker that has started."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("started"):
            return int(line.split()[1])
    raise AssertionError(f"no worker: {process.stderr.read() if process.stderr else ''}")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLERS.format(grace="30s"))
    return tmp_path


def test_one_worker_runs_in_the_process_itself_and_stops_with_code_0(directory: Path) -> None:
    with command(directory, "handlers:app") as process:
        assert started(process) == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_several_workers_stop_together(directory: Path) -> None:
    with command(directory, "handlers:app", "--workers", "2") as process:
        pids = {started(process), started(process)}
        assert len(pids) == 2
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 0
        assert output.count("stopped") == 2


def test_a_killed_worker_is_started_again(directory: Path) -> None:
    with command(directory, "handlers:app", "--workers", "2") as process:
        pids = {started(process), started(process)}
        victim = min(pids)
        os.kill(victim, signal.SIGKILL)
        assert started(process) not in pids
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert "worker ended" in errors
        assert "exit_code=-9" in errors


def test_workers_restart_when_a_source_file_changes(directory: Path) -> None:
    with command(directory, "handlers:app", "--reload") as process:
        first = started(process)
        (directory / "handlers.py").write_text(HANDLERS.format(grace="31s"))
        assert started(process) != first
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert "source changed" in errors


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("handlers", "'handlers' names no app: write module:variable"),
        ("missing:app", "there is no module 'missing'"),
        ("handlers:apq", "handlers has no 'apq': it has app; did you mean app?"),
        ("handlers:HANDLERS", "handlers has no 'HANDLERS': it has app"),
        ("handlers:Worker", "handlers:Worker is type, not an App"),
        ("broken:app", "broken cannot be imported: ZeroDivisionError: division by zero"),
        ("wrong:app", "@app.stream cannot use wrong.bill: it has no parameter; expected `async def bill("),
        ("empty:app", "empty:app has no handlers: decorate a function with @app.stream"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_refused_in_one_sentence(
    directory: Path, name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wrong_modules(directory)
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", [str(directory), *sys.path])
    for module in ("handlers", "broken", "wrong", "empty"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(QanatError) as caught:
        load_app(name)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("workers", "code"), [("1", 3), ("2", 1)])
def test_an_app_that_cannot_be_loaded_ends_the_command_without_a_traceback(
    directory: Path, workers: str, code: int
) -> None:
    write_wrong_modules(directory)
    with command(directory, "wrong:app", "--workers", workers) as process:
        _, errors = process.communicate(timeout=30)
        assert process.returncode == code
        assert "@app.stream cannot use wrong.bill" in errors
        assert "Traceback" not in errors


def write_wrong_modules(directory: Path) -> None:
    (directory / "broken.py").write_text("1 / 0")
    header = "from qanat.client.app.app import App\napp = App('x:1')\n"
    (directory / "wrong.py").write_text(header + "@app.stream('t')\ndef bill() -> None: ...\n")
    (directory / "empty.py").write_text(header)


def test_no_worker_at_all_is_refused(directory: Path) -> None:
    with command(directory, "handlers:app", "--workers", "0") as process:
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "at least one is needed" in errors


def test_pauses_between_restarts_double_until_a_worker_is_steady() -> None:
    restarts = Restarts()
    pauses = []
    for now_s in range(8):
        restarts.started(now_s)
        pauses.append(restarts.ended(now_s + 0.5))
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    restarts.started(100)
    assert restarts.ended(131) == 0.5


def test_a_file_that_is_new_gone_or_changed_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "b.py").write_text("")
    before = stamps(tmp_path)
    assert list(before) == [str(tmp_path / "a.py")]
    assert changed(before, stamps(tmp_path)) is None
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert changed(before, stamps(tmp_path)) == str(tmp_path / "a.py")
    (tmp_path / "a.py").unlink()
    assert changed(before, stamps(tmp_path)) == str(tmp_path / "a.py")
