"""Apache Kafka's jars, for tests and measurements with Kafka itself.

    python -m tools.kafka_jars

Maven fetches them, from the repository that this machine is set up for, into `.cache/kafka-<version>/`, which git
ignores; an existing folder is used as it is. Prints the folder, or one sentence about what is missing.

Rule 1: the folder appears complete or not at all.
Rule 2: no process waits longer than the limit. Processes that want the jars at the same time share one attempt, and its
        failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.toolchains.maven import need_maven
from tools.toolchains.registries import MissingToolError

VERSION = "4.1.0"
LATER_VERSION = "4.2.0"
"""For what 4.1 does not serve yet: the renewal of locks (KIP-1222) among others."""
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / f"kafka-{VERSION}"
LIMIT_SECONDS = 120.0
OLDEST_JAVA = 17

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>qanat</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>@version@</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class JarsUnavailableError(Exception):
    """Kafka's jars are not available here; the message says why in one sentence."""


def have_jars(folder: Path = FOLDER, limit_seconds: float = LIMIT_SECONDS, asked_at: float | None = None) -> Path:
    """The folder with Kafka's jars, fetched first where they are missing; raises `JarsUnavailableError`.

    An attempt that failed after `asked_at`, which is now where it is not given, is not made again.
    """
    asked_at = time.time() if asked_at is None else asked_at
    _check_java()
    if folder.is_dir():
        return folder
    if os.environ.get("QANAT_OFFLINE") == "1":
        raise JarsUnavailableError(
            f"Kafka's jars are not in {_named(folder)}, and QANAT_OFFLINE=1 forbids to fetch them"
        )
    if shutil.which("mvn") is None:
        raise JarsUnavailableError(
            f"Kafka's jars are not in {_named(folder)}, and there is no Maven (mvn) to fetch them with"
        )
    failure = folder.with_name(folder.name + ".failure")
    with _claimed(folder.with_name(folder.name + ".lock")):
        if folder.is_dir():
            return folder
        if failure.exists() and failure.stat().st_mtime >= asked_at:
            raise JarsUnavailableError(failure.read_text())
        try:
            need_maven("Kafka's jars")
            _fetch(folder, limit_seconds)
        except (JarsUnavailableError, MissingToolError) as error:
            failure.write_text(str(error))
            raise JarsUnavailableError(str(error)) from None
        failure.unlink(missing_ok=True)
    return folder


def have_later_jars(asked_at: float | None = None) -> Path:
    """The folder with the jars of the later Kafka, fetched first where they are missing."""
    return have_jars(FOLDER.with_name(f"kafka-{LATER_VERSION}"), asked_at=asked_at)


def java_command(folder: Path, main_class: str, *options: str) -> list[str]:
    """The start of a command line that runs one of Kafka's classes; its arguments come after."""
    return ["java", *options, "-Dfile.encoding=UTF-8", "-cp", f"{folder}/*", main_class]


def _named(folder: Path) -> str:
    """The folder's name without the path of this machine."""
    return f"{folder.parent.name}/{folder.name}"


def _check_java() -> None:
    if shutil.which("java") is None:
        raise JarsUnavailableError(f"there is no Java on this machine; Kafka {VERSION} needs {OLDEST_JAVA} or newer")
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] if found else "unknown"
        raise JarsUnavailableError(f"Java is version {version}; Kafka {VERSION} needs {OLDEST_JAVA} or newer")


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, limit_seconds: float) -> None:
    version = folder.name.rpartition("-")[2]
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as workplace:
        pom, jars = Path(workplace) / "pom.xml", Path(workplace) / "jars"
        pom.write_text(_POM.replace("@version@", version))
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), _PLUGIN]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={jars}", "-Dmaven.artifact.threads=12"]
        _run([*command, *options], limit_seconds)
        if not any(jars.glob("kafka_2.13-*.jar")):
            raise JarsUnavailableError(f"Maven ended well, but did not bring the jars of Kafka {version}")
        jars.rename(folder)


def _run(command: list[str], limit_seconds: float) -> None:
    """Run Maven; it and its child processes end with the limit."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as maven:
        try:
            output, _ = maven.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(maven.pid, signal.SIGKILL)
            raise JarsUnavailableError(
                f"Maven did not bring Kafka's jars within {limit_seconds:.0f} seconds; what it has is kept: try again"
            ) from None
    if maven.returncode:
        errors = [line.removeprefix("[ERROR]").strip() for line in output.splitlines() if line.startswith("[ERROR]")]
        reason = errors[0] if errors else f"exit code {maven.returncode}"
        raise JarsUnavailableError(f"Maven cannot fetch Kafka's jars: {reason}")


def main() -> int:
    """Fetch the jars and print their folder; exit code 1 with the reason where that fails."""
    try:
        print(have_jars())
    except JarsUnavailableError as error:
        print(f"kafka_jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
