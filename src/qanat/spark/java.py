"""The Java that Spark starts: found in its usual places, and new enough."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from qanat.model.errors import QanatError

AT_LEAST = 17
_USUAL_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java", "/opt")
_ANSWER_SECONDS = 20
_INSTALL = (
    "Install one (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to where it is"
)


class NoJavaError(QanatError):
    """Spark needs Java, and there is none or only an old one."""


def require_java() -> str:
    """The `java` that Spark will start; sets JAVA_HOME where only a usual place has a Java that is new enough.

    Raises `NoJavaError` with what was found and what to do.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (named := Path(home, "bin", "java")).exists():
        # JAVA_HOME is the user's choice: another Java would be a surprise.
        version = major_version(named)
        if version is None or version < AT_LEAST:
            raise NoJavaError(f"{_too_old(named, version)} (JAVA_HOME). {_INSTALL}")
        return str(named)
    old: tuple[Path, int | None] | None = None
    for java, is_on_path in _candidates():
        version = major_version(java)
        if version is not None and version >= AT_LEAST:
            if not is_on_path:
                os.environ["JAVA_HOME"] = str(java.parent.parent)
            return str(java)
        old = old or (java, version)
    found = _too_old(*old) if old is not None else f"Spark needs Java {AT_LEAST} or newer and none was found"
    raise NoJavaError(f"{found}. {_INSTALL}")


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Possible places of Java, and whether Spark finds it there by itself."""
    found = shutil.which("java")
    if found is not None:
        yield Path(found), True
    for place in _USUAL_PLACES:
        for java in sorted(Path(place).glob("*/bin/java"), reverse=True):
            yield java, False


def _too_old(java: Path, version: int | None) -> str:
    version_text = "does not say its version" if version is None else f"is version {version}"
    return f"Spark needs Java {AT_LEAST} or newer, but {java} {version_text}"


def major_version(java: Path) -> int | None:
    """The version in the output of `java -version`; None where there is none."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stderr or done.stdout).splitlines()
    return next((version for line in lines if (version := version_in(line)) is not None), None)


def version_in(line: str) -> int | None:
    """The major version in `openjdk version "17.0.2" …`; 8 and older call themselves 1.8.

    >>> version_in('openjdk version "17.0.2" 2022-01-18'), version_in('java version "1.8.0_391"'), version_in("no")
    (17, 8, None)
    """
    quoted = line.split('"')
    if len(quoted) < 2:
        return None
    numbers = quoted[1].replace("-", ".").split(".")
    if numbers[0] == "1" and len(numbers) > 1:
        numbers = numbers[1:]
    return int(numbers[0]) if numbers[0].isdigit() else None
