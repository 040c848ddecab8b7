"""Apache Kafka's own Java client, compiled against the jars that `tools.kafka_jars` fetches."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.clients.capabilities import CODECS
from tests.clients.remote import RemoteClient
from tests.fetching import Unavailable, run_began_at

SOURCES = Path(__file__).parent / "java"
CLASSES = Path(__file__).resolve().parents[2] / ".cache" / "java-client"
LIMIT_SECONDS = 60


class JavaClient(RemoteClient):
    codecs = CODECS

    def __init__(self, address: str) -> None:
        from tools.kafka_jars import VERSION

        super().__init__([*java_command("Client"), address], VERSION)


def java_command(program: str, *options: str) -> list[str]:
    """The start of a command line that runs one of our programs, compiled where that is needed."""
    from tools.kafka_jars import JarsUnavailableError, have_jars

    try:
        jars = have_jars(asked_at=run_began_at())
    except JarsUnavailableError as error:
        raise Unavailable(str(error)) from None
    _compile(program, jars)
    # A small heap, and no time spent on optimising what runs for seconds.
    quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return ["java", *quick, *options, "-cp", f"{CLASSES}:{jars}/*", program]


def _compile(program: str, jars: Path) -> None:
    """Compile where that has not been done since the source was changed."""
    source = SOURCES / f"{program}.java"
    CLASSES.mkdir(parents=True, exist_ok=True)
    with (CLASSES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compiled = CLASSES / f"{program}.class"
        if compiled.exists() and compiled.stat().st_mtime > source.stat().st_mtime:
            return
        # Debian's runtime has the compiler without the command for it.
        compiler = ["javac"] if shutil.which("javac") else ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        done = subprocess.run(
            [*compiler, "-cp", f"{jars}/*", "-proc:none", "-d", str(CLASSES), str(source)],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        if done.returncode and "jdk.compiler not found" in done.stdout + done.stderr:
            raise Unavailable("there is no Java compiler (javac) on this machine")
        assert done.returncode == 0, done.stderr[-2000:]
