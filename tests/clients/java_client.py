"""Apache Kafka's own Java client, compiled against the jars that `tools.kafka_jars` fetches."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.clients.capabilities import CODECS
from tests.clients.remote import RemoteClient
from tests.fetching import Unavailable, run_began_at

SOURCE = Path(__file__).parent / "java" / "Client.java"
CLASSES = Path(__file__).resolve().parents[2] / ".cache" / "java-client"
LIMIT_SECONDS = 60


class JavaClient(RemoteClient):
    codecs = CODECS

    def __init__(self, address: str) -> None:
        from tools.kafka_jars import VERSION, JarsUnavailableError, have_jars

        try:
            jars = have_jars(asked_at=run_began_at())
        except JarsUnavailableError as error:
            raise Unavailable(str(error)) from None
        _compile(jars)
        # A small heap, and no time spent on optimising what runs for seconds.
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        super().__init__(["java", *options, "-cp", f"{CLASSES}:{jars}/*", "Client", address], VERSION)


def _compile(jars: Path) -> None:
    """Compile where that has not been done since the source was changed."""
    CLASSES.mkdir(parents=True, exist_ok=True)
    with (CLASSES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compiled = CLASSES / "Client.class"
        if compiled.exists() and compiled.stat().st_mtime > SOURCE.stat().st_mtime:
            return
        if shutil.which("javac") is None:
            raise Unavailable("there is no Java compiler (javac) on this machine")
        done = subprocess.run(
            ["javac", "-cp", f"{jars}/*", "-proc:none", "-d", str(CLASSES), str(SOURCE)],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
