"""`qanat` as the scripts of pages call it: servers run in the background, on free ports, until the page ends.

    python -m tests.documents.qanat_here PORT ARGUMENTS

`start`, `dev`, `edge consumer` and `cluster up` return when the server answers, as a second terminal would show; the
server before is stopped first, because a page shows alternatives one after the other.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HTTP_OFFSET = 8
PATIENCE_S = 120
PID = Path(".server.pid")
_NODES = ".node-*.pid"
CONSUMER = Path(".consumer.pid")
CLUSTER = Path(".cluster")
# The first row of what a broker prints when all its listeners serve.
BANNER = "\n  node  "


def main(arguments: list[str]) -> int:
    port, words = int(arguments[0]), arguments[1:]
    command = [sys.executable, "-m", "qanat.app", *words]
    if words[:2] == ["cluster", "up"]:
        stop()
        folder = words[words.index("--data-dir") + 1] if "--data-dir" in words else "data"
        CLUSTER.write_text(folder)
        more = [] if {"-d", "--detach"} & set(words) else ["--detach"]
        return subprocess.run([*command, "--port", str(port), "--http-port", str(port + HTTP_OFFSET), *more]).returncode
    if words[:2] == ["edge", "consumer"] and "--help" not in words:
        _end(CONSUMER)
        given = words[words.index("--port") + 1] if "--port" in words else os.environ.get("CONSUMER_PORT", "")
        return _begin(command, CONSUMER, int(given or port + HTTP_OFFSET + 2))
    if words[:1] not in (["start"], ["dev"]):
        os.execv(sys.executable, command)
    if node := os.environ.get("NODE_ID"):
        pid = Path(_NODES.replace("*", node))
        _end(pid)
        return _begin(command, pid, int(os.environ["BROKER_PORT"]))
    stop()
    return _begin(command, PID, port)


def _begin(command: list[str], pid: Path, port: int) -> int:
    """Run a server in the background, and return when it serves; a broker then prints its banner."""
    written = pid.with_suffix(".log")
    with written.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    pid.write_text(str(process.pid))
    deadline = time.monotonic() + PATIENCE_S
    while not (_answers(port) and (pid == CONSUMER or BANNER in written.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.stdout.write(written.read_text()[-2000:])
            return process.poll() or 1
        time.sleep(0.05)
    sys.stdout.write(written.read_text())
    return 0


def _end(file: Path) -> None:
    if file.exists():
        pid = int(file.read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        file.unlink()


def stop() -> None:
    """Stop what a page has started so far, in the current folder."""
    for pid in (CONSUMER, PID, *Path().glob(_NODES)):
        _end(pid)
    if CLUSTER.exists():
        down = [sys.executable, "-m", "qanat.app", "cluster", "down", "--data-dir", CLUSTER.read_text()]
        subprocess.run(down, capture_output=True, check=False)
        CLUSTER.unlink()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
