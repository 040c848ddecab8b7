"""sarama and franz-go: two programs in Go, built into `.cache/` by `make clients`.

Building them from nothing takes two cores most of a minute, so an ordinary run of the tests uses what is
built and otherwise says how to get it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.clients.capabilities import CODECS
from tests.clients.remote import RemoteClient
from tests.fetching import Unavailable

SOURCES = Path(__file__).parent / "go"
PROGRAMS = Path(__file__).resolve().parents[2] / ".cache" / "go-clients"
LIMIT_SECONDS = 300
USUAL_FOLDER = "/usr/local/go/bin"
"""Where Go's own archive is unpacked to, which few put on their path."""


class Sarama(RemoteClient):
    codecs = CODECS

    def __init__(self, address: str) -> None:
        super().__init__([str(built("sarama")), address], version_of("github.com/IBM/sarama"))


class FranzGo(RemoteClient):
    codecs = CODECS

    def __init__(self, address: str) -> None:
        super().__init__([str(built("franz")), address], version_of("github.com/twmb/franz-go"))

    def transform(
        self, source: str, sink: str, *, group: str, transactional_id: str, timeout_ms: int, count: int
    ) -> None:
        """Read as a group and write in capitals, offsets and output in one transaction."""
        asked = {"group": group, "transactional_id": transactional_id, "timeout_ms": timeout_ms, "count": count}
        self.ask("transform", topic=source, sink=sink, **asked)


def version_of(module: str) -> str:
    found = re.search(rf"^\s*{re.escape(module)} v(\S+)", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, module
    return found[1]


def built(name: str) -> Path:
    """The program, built where its sources have changed since, or where this run may take its time."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    program = PROGRAMS / name
    with (PROGRAMS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in SOURCES.rglob("*") if path.is_file())
        if not program.exists() or program.stat().st_mtime < newest:
            if not program.exists() and "QANAT_CLIENT_RESULTS" not in os.environ:
                raise Unavailable(f"it is not in .cache/{PROGRAMS.name}; `make clients` builds it")
            _build(name)
    return program


def _build(name: str) -> None:
    go = shutil.which("go") or shutil.which("go", path=USUAL_FOLDER)
    if go is None:
        raise Unavailable("there is no Go (go) on this machine")
    if os.environ.get("QANAT_OFFLINE") == "1":
        raise Unavailable("QANAT_OFFLINE=1 forbids to fetch its modules")
    # Fetching may fail for reasons that are not ours; a program that does not compile is our fault.
    if (fetched := _run(go, "mod", "download")).returncode:
        raise Unavailable(f"go cannot fetch its modules (exit code {fetched.returncode})")
    done = _run(go, "build", "-o", str(PROGRAMS / name), f"./{name}")
    assert done.returncode == 0, done.stderr[-2000:]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # A module asks for a Go of its own age: one that is older says so instead of fetching a newer one.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        return subprocess.run(
            command, cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[1:3])} took more than {LIMIT_SECONDS} seconds") from None
