"""The process of Spark's Java, as this process started it: whether it ended, why, and how to start another."""

from __future__ import annotations

import logging
from subprocess import TimeoutExpired
from typing import Any

from qanat.model.errors import QanatError

EXIT_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
"""A heap that is full fails one thread after the other; Java ends instead, and is started again."""
_HEAP_FULL, _KILLED = 3, -9
_END_WITHIN_S = 5.0


class JavaEndedError(QanatError):
    """Spark's Java ended while a pipeline ran."""


def is_lost(fault: Exception) -> bool:
    """Whether an error may be that Java does not answer any more."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    signs = ("Connection refused", "Answer from Java side is empty", "Error while sending or receiving")
    return isinstance(fault, Py4JError | OSError) or any(sign in str(fault) for sign in signs)


def has_ended() -> bool:
    process = _process()
    return process is not None and process.poll() is not None


def reason_of_end() -> str | None:
    """Why Java ended, in one sentence with the remedy; None while it runs."""
    process = _process()
    try:
        return None if process is None else described(process.wait(_END_WITHIN_S))
    except TimeoutExpired:
        return None


def _process() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def described(code: int) -> str:
    """
    >>> described(3)[:24], described(-9)[:22], described(1)
    ("Java's heap was used up:", 'Java was killed with -', 'Java ended with code 1; --verbose shows its log')
    """
    if code == _HEAP_FULL:
        return "Java's heap was used up: give it more (--conf spark.driver.memory=8g), or set a smaller limit_bytes"
    if code == _KILLED:
        return (
            "Java was killed with -9, as the system does when memory runs out: give the machine more, or Java less "
            "(--conf spark.driver.memory=1g)"
        )
    return f"Java ended with code {code}; --verbose shows its log"


def hide_its_end() -> None:
    """Let the sentence be all that is printed when Java ends: Spark and py4j print a traceback for each connection."""
    from pyspark.accumulators import AccumulatorTCPServer

    root = logging.getLogger()
    if _says_more not in root.filters:
        root.addFilter(_says_more)
    server: Any = AccumulatorTCPServer
    server.handle_error = lambda *_: None


def _says_more(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is another one than py4j's on a connection that ended."""
    return record.module not in ("java_gateway", "clientserver")


def discard() -> None:
    """Forget a Java that ended, so that the next session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    gateway = context._gateway
    if gateway is not None:
        gateway.shutdown()
    context._gateway = context._jvm = context._active_spark_context = None
    session: Any = SparkSession
    session._instantiatedSession = session._activeSession = None
