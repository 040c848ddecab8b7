"""What Spark gives up because the machine is busy, and what to do then.

Spark gives every Python process ten seconds to start, which cannot be set, and needs such processes to look at a
source, at the beginning of a query and at each commit. Where the machine takes longer, nothing is wrong but that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

TRIES = 5

_SAID_BY_SPARK = "Python worker failed to connect back"

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


def is_too_slow(fault: Exception) -> bool:
    """Whether all that was wrong is that a Python process took longer to start than Spark waits."""
    return _SAID_BY_SPARK in str(fault)


def patiently(what: str, act: Callable[[], Result]) -> Result:
    """Do it, again if need be; what fails for another reason, or every time, is raised."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    for _ in range(TRIES - 1):
        try:
            return act()
        except (PySparkException, Py4JError) as fault:
            if not is_too_slow(fault):
                raise
            tell_again(what)
    return act()


def tell_again(what: str) -> None:
    _log.warning("%s: a Python process took longer to start than Spark waits; trying again", what)
