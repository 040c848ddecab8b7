"""A server process on loopback: start, first answer, and the end with all its child processes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.servers import START_SECONDS, Running, ServerFailedError, free_port, stop

_RETRY_SECONDS = 0.002
_LAST_WORDS = 2_000


@dataclass(frozen=True, slots=True)
class Launch:
    """One server: its command, the first request, and the beginning of its answer (any answer if empty)."""

    command: Sequence[str]
    question: bytes
    answer: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    companion: Sequence[str] = ()
    """A program that must run first, if any; it is not measured, and ends with the server."""


@contextlib.contextmanager
def launched(folder: Path, prepare: Callable[[Path, int], Launch]) -> Iterator[Running]:
    """The server in a new folder, after its first answer; `prepare` writes its files there, before the measurement."""
    folder.mkdir(parents=True)
    port = free_port()
    launch = prepare(folder, port)
    output = folder / "output"
    with contextlib.ExitStack() as ending, output.open("wb") as written:

        def begin(command: Sequence[str]) -> subprocess.Popen[bytes]:
            environment = {**os.environ, **launch.environment}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT, cwd=folder, env=environment
            )
            ending.callback(stop, process)
            return process

        if launch.companion:
            begin(launch.companion)
        started_at = time.perf_counter()
        process = begin(launch.command)
        _wait(process, port, launch, output)
        seconds = time.perf_counter() - started_at
        yield Running([process.pid], f"127.0.0.1:{port}", seconds)


def _wait(process: subprocess.Popen[bytes], port: int, launch: Launch, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailedError(f"it ended with code {process.returncode}: {_last_words(output)}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as asking:
            asking.sendall(launch.question)
            if _is_answered(asking, launch.answer):
                return
        time.sleep(_RETRY_SECONDS)
    raise ServerFailedError(f"no answer within {START_SECONDS:.0f} seconds: {_last_words(output)}")


def _is_answered(asking: socket.socket, wanted: bytes) -> bool:
    """Whether the wanted bytes arrive; a greeting may come before them."""
    found = b""
    while piece := asking.recv(4096):
        found += piece
        if wanted in found:
            return True
    return False


def _last_words(output: Path) -> str:
    return output.read_text(errors="replace")[-_LAST_WORDS:].strip() or "it wrote nothing"
