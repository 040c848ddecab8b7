"""Spark's Kafka connector with a PySpark that fits it, in an environment of its own under `.cache/`.

Rule: an incomplete folder, whose fetching process was killed, is filled anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.toolchains.maven import need_maven
from tools.toolchains.registries import MissingToolError

VERSION = "4.0.0"
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / f"spark-connector-{VERSION}"
_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""Without their dependencies, which Spark has already."""
_LATER_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""The newest that Maven has, without their dependencies: they read and write in the PySpark of this checkout."""
LATER_FOLDER = FOLDER.with_name("spark-connector-jars")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_LIMIT_S = 600.0


class ConnectorUnavailableError(Exception):
    """The connector is not available here; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Connector:
    """The interpreter and the jars of the connector."""

    python: Path
    jars: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        return ",".join(map(str, self.jars))


def have_connector(folder: Path = FOLDER) -> Connector:
    """The connector, fetched first where it is missing; raises `ConnectorUnavailableError`."""
    if not _is_complete(folder):
        _require_maven(folder)
        _fetch(folder)
    return Connector(folder / "env" / "bin" / "python", tuple(sorted((folder / "jars").glob("*.jar"))))


def have_later_jars(folder: Path = LATER_FOLDER) -> tuple[Path, ...]:
    """The jars for the PySpark of this checkout, fetched where they are missing; raises `ConnectorUnavailableError`."""
    if not folder.is_dir():
        _require_maven(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as workplace:
            _fetch_jars(_LATER_ARTIFACTS, Path(workplace) / "jars")
            (Path(workplace) / "jars").rename(folder)
    return tuple(sorted(folder.glob("*.jar")))


def _require_maven(folder: Path) -> None:
    if os.environ.get("QANAT_OFFLINE") == "1":
        raise ConnectorUnavailableError(f"it is not in .cache/{folder.name}, and QANAT_OFFLINE=1 forbids to fetch it")
    if shutil.which("mvn") is None:
        raise ConnectorUnavailableError("there is no Maven (mvn) to fetch its jars with")
    try:
        need_maven("its jars")
    except MissingToolError as missing:
        raise ConnectorUnavailableError(str(missing)) from None


def _is_complete(folder: Path) -> bool:
    has_spark = any((folder / "env").glob(f"lib/*/site-packages/pyspark-{VERSION}.dist-info"))
    return has_spark and len(list((folder / "jars").glob("*.jar"))) == len(_ARTIFACTS)


def _fetch(folder: Path) -> None:
    print(f"fetching Spark's Kafka connector and PySpark {VERSION} into .cache/{folder.name} ...", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as workplace:
        made = Path(workplace) / "made"
        _fetch_jars(_ARTIFACTS, made / "jars")
        made.rename(folder)
    try:
        # An environment knows its own path, so it is made where it stays.
        _run([sys.executable, "-m", "venv", str(folder / "env")], "no environment can be made")
        pip = [str(folder / "env" / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        _run([*pip, f"pyspark=={VERSION}", "pyarrow<22", "numpy<3", "pandas<3"], f"pip cannot fetch PySpark {VERSION}")
    except BaseException:
        shutil.rmtree(folder)
        raise


def _fetch_jars(artifacts: Sequence[str], folder: Path) -> None:
    for artifact in artifacts:
        where = [f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        _run(["mvn", "--batch-mode", "--quiet", _COPY, *where], f"Maven cannot fetch {artifact}")


def _run(command: list[str], failure: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ConnectorUnavailableError(f"{failure} within {_LIMIT_S:.0f} seconds") from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise ConnectorUnavailableError(f"{failure}: {words[0] if words else f'exit code {done.returncode}'}")
