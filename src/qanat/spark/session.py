"""A Spark session with everything set up: Python of the workers, Java, the data source `qanat`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qanat.model.errors import QanatError
from qanat.spark.java import NoJavaError, require_java
from qanat.spark.machine_memory import heap_setting
from qanat.spark.spark_version import require_supported
from qanat.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SHORT_LIVED_JAVA", "NoJavaError", "NoSparkError", "require_java", "session"]

SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a driver's Java that lives for minutes: quick compilation instead of good code.

Until its first stream has ended, such a driver takes 15 s of processor time instead of 42, as measured.
"""


class NoSparkError(QanatError):
    """PySpark is not installed, or does not start."""


def session(name: str = "qanat", master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session with `format("qanat")`; `settings` are Spark's own. It sets PYSPARK_PYTHON and JAVA_HOME itself."""
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark import __version__
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        require_supported(__version__)
        from qanat.spark.source import register
    except ModuleNotFoundError as fault:
        raise NoSparkError(f"{fault.name} is not installed: pip install 'qanat[spark]'") from None
    require_java()
    builder = SparkSession.builder.appName(name)
    chosen = master or (settings or {}).get("spark.master", "")
    for key, value in {**_DEFAULTS, **session_memory(chosen), **(settings or {})}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    try:
        with _python_chosen(settings or {}, master):
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as fault:
        raise NoSparkError(
            f"Spark does not start{f' at {master}' if master else ''}: {reason_of(str(fault))}"
        ) from None
    register(spark)
    return spark


def task_slots(spark: SparkSession) -> int:
    """How many tasks run at once; Spark Connect does not tell: there, how many partitions a shuffle has."""
    context = getattr(spark, "sparkContext", None)
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1) if context is None else context.defaultParallelism


def session_memory(master: str) -> dict[str, str]:
    """Java's heap where Spark runs in this process's Java; a size in Spark's own configuration remains."""
    home = os.environ.get("SPARK_HOME", "")
    defaults = Path(os.environ.get("SPARK_CONF_DIR", f"{home}/conf" if home else "/nonexistent"), "spark-defaults.conf")
    is_set = "SPARK_DRIVER_MEMORY" in os.environ or (
        defaults.is_file() and _HEAP in defaults.read_text(encoding="utf-8", errors="replace")
    )
    return {} if is_set or not master.startswith("local") else {_HEAP: heap_setting(master)}


@contextmanager
def _python_chosen(settings: Mapping[str, str], master: str | None) -> Iterator[None]:
    """Set the Python of the workers: the user's choice, otherwise this Python.

    Spark reads it when a session begins; afterwards the variable names Python itself, for other programs.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = chosen
    if chosen == sys.executable:
        os.environ["PYSPARK_PYTHON"] = worker_python(
            master or settings.get("spark.master", ""), os.environ.get("SPARK_HOME")
        )
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = chosen


def reason_of(text: str) -> str:
    """The reason in an error of Spark or Java, without its stack trace.

    >>> reason_of("An error occurred while calling None.\\n: org.SparkException: no such master\\n\\tat org.apache")
    'no such master'
    >>> reason_of("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    'Java ended at once; its output is above'
    """
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java ended at once; its output is above"
    thrown = next((line for line in text.splitlines() if line.startswith(": ")), text.strip().split("\n", 1)[0])
    return thrown.removeprefix(": ").rpartition("Exception: ")[2].split(" SQLSTATE:")[0]


_HEAP = "spark.driver.memory"
_DEFAULTS = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Timestamps that every reader of Parquet takes for UTC; Spark's default is a form of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
