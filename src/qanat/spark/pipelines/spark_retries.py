"""Retries of Spark operations that fail only because the machine is busy.

Spark gives every Python process ten seconds to start, which cannot be configured, and starts such processes to inspect
a source, at the beginning of a query and at each commit. On a busy machine they take longer, and a retry succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from qanat.spark.pipelines.spark_faults import TOO_SLOW

TRIES = 5

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


def is_too_slow(fault: Exception) -> bool:
    """Whether the error is only that a Python process took longer to start than Spark waits."""
    return TOO_SLOW in str(fault)


def with_spark_retries(what: str, act: Callable[[], Result]) -> Result:
    """Run it, and retry while a Python process starts too slowly; raises any other error."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    for _ in range(TRIES - 1):
        try:
            return act()
        except (PySparkException, Py4JError) as fault:
            if not is_too_slow(fault):
                raise
            log_retry(what)
    return act()


def log_retry(what: str) -> None:
    _log.warning("%s: a Python process took longer to start than Spark waits; trying again", what)
