"""A Spark session that works at once: the right Python for the workers, Java found, the data source registered."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_AT_LEAST = 17
_USUAL_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java", "/opt")


class NoJavaError(QanatError):
    """Spark needs Java and there is none."""


class NoSparkError(QanatError):
    """PySpark is not installed."""


def session(name: str = "qanat", master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session with `format("qanat")`; `settings` are Spark's own. Nobody has to set PYSPARK_PYTHON or JAVA_HOME."""
    try:
        from pyspark.sql import SparkSession

        from qanat.spark.source import register
    except ModuleNotFoundError as fault:
        raise NoSparkError(f"{fault.name} is not installed: pip install 'qanat[spark]'") from None
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**_DEFAULTS, **(settings or {})}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    spark = builder.getOrCreate()
    register(spark)
    return spark


_DEFAULTS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Moments that every reader of Parquet knows to be UTC; Spark's own default is a form of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def require_java() -> str:
    """The `java` that Spark will start; JAVA_HOME is set where it was not and a Java lies in a usual place."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is not None:
        return found
    for place in _USUAL_PLACES:
        for java in sorted(Path(place).glob("*/bin/java"), reverse=True):
            os.environ["JAVA_HOME"] = str(java.parent.parent)
            return str(java)
    raise NoJavaError(
        f"Spark needs Java {JAVA_AT_LEAST} or newer and none was found. Install one (Debian: apt-get install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME to where it is"
    )
