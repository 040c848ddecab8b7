"""Processes forked off the zygote are what `python -m` would have started; without it, Python is started."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from qanat.spark import worker_launcher

SHOWN = """\
import os, sys
print(os.getppid(), flush=True)
print(sys.argv[1:], os.environ.get("GIVEN"), os.getcwd(), sys.stdin.read(), __name__, hash("a row"))
sys.exit(int(os.environ.get("STATUS", "0")))
"""
WAITING = "import os, sys\nprint(os.getpid(), flush=True)\nsys.stdin.read()\n"
DRAWING = "import numpy.random\nprint(numpy.random.randint(1 << 30))\n"
RAISING = "raise LookupError('no such row')\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    for name, text in {"shown": SHOWN, "waiting": WAITING, "drawing": DRAWING, "raising": RAISING}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    path = tmp_path_factory.mktemp("zygote") / "socket"
    command = [sys.executable, "-m", "qanat.spark.worker_zygote", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": "0"}) as process:
        while not path.exists():
            assert process.poll() is None, "the zygote ended"
        yield path, process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0, "it ends with its driver"


def launched(path: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-IS", worker_launcher.__file__, sys.executable, str(path), "-m", *arguments]
    given = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=given, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_forked_process_is_as_a_started_one(
    zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path, tmp_path: Path
) -> None:
    path, process = zygote
    given = {"GIVEN": "x y", "STATUS": "7"}

    with launched(path, folder, "shown", "a b", "", **given) as forked:
        out, _ = forked.communicate("in")
    with launched(tmp_path / "none", folder, "shown", "a b", "", **given) as started:
        expected, _ = started.communicate("in")

    parent, *shown = out.splitlines()
    assert (shown, forked.returncode) == (expected.splitlines()[1:], 7)
    assert shown[0].startswith(f"['a b', ''] x y {folder} in __main__ ")
    assert (int(parent), started.returncode) == (process.pid, 7), "the first was forked, the second was not"


def test_another_hash_seed_starts_another_interpreter(
    zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path
) -> None:
    path, process = zygote

    with launched(path, folder, "shown", PYTHONHASHSEED="1") as asked:
        out, _ = asked.communicate("")

    assert asked.returncode == 0
    assert int(out.splitlines()[0]) != process.pid


def test_an_exception_is_reported_as_an_interpreter_does(
    zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path
) -> None:
    with launched(zygote[0], folder, "raising") as asked:
        _, errors = asked.communicate("")

    assert asked.returncode == 1
    assert errors.endswith("LookupError: no such row\n")


def test_a_module_that_the_zygote_has_imported_runs_without_a_warning(
    zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path
) -> None:
    with launched(zygote[0], folder, "qanat.spark.reads.stream_reader") as asked:
        _, errors = asked.communicate("")

    assert (asked.returncode, errors) == (0, "")


def test_a_process_ends_with_its_launcher(zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path) -> None:
    with launched(zygote[0], folder, "waiting") as asked:
        assert asked.stdout is not None
        child = os.pidfd_open(int(asked.stdout.readline()))
        asked.kill()

    _wait_for(child)


def test_a_process_that_is_killed_shows_in_the_launchers_status(
    zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path
) -> None:
    with launched(zygote[0], folder, "waiting") as asked:
        assert asked.stdout is not None
        os.kill(int(asked.stdout.readline()), signal.SIGKILL)

        assert asked.wait(30) == 128 + signal.SIGKILL


def test_processes_draw_different_numbers(zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path) -> None:
    drawn = {launched(zygote[0], folder, "drawing").communicate("")[0] for _ in range(3)}

    assert len(drawn) == 3


def test_half_a_request_leaves_the_zygote_as_it_was(zygote: tuple[Path, subprocess.Popen[bytes]], folder: Path) -> None:
    for sent in (b"", b"\1", worker_launcher.LENGTH.pack(1 << 31), worker_launcher.LENGTH.pack(4) + b"none"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(zygote[0]))
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""

    with launched(zygote[0], folder, "shown") as asked:
        out, _ = asked.communicate("")
    assert int(out.splitlines()[0]) == zygote[1].pid


def _wait_for(process: int) -> None:
    """Return when a process has ended."""
    try:
        assert select.select([process], [], [], 30)[0], "the process lives on"
    finally:
        os.close(process)
