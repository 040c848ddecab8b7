"""Events worth a log line: a short phrase, and what belongs to it.

    log_event("topic created", topic="orders", partitions=4)

They go to Python's own `logging` under the name `qanat`; a program decides what becomes of
them (`app.node.event_log`), and where it decides nothing, nothing is written.
"""

from __future__ import annotations

import logging
import time
from typing import Literal

LogLevel = Literal["debug", "info", "warning", "error"]

FIELDS = "qanat_fields"
"""The attribute of a log record that holds an event's fields."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_logger = logging.getLogger("qanat")
_logger.addHandler(logging.NullHandler())


def log_event(name: str, *, level: LogLevel = "info", **fields: object) -> None:
    """Log one event."""
    _logger.log(_LEVELS[level], name, extra={FIELDS: fields})


def failure(name: str, fault: BaseException, **fields: object) -> None:
    """Log a bug with its traceback."""
    _logger.error(name, exc_info=fault, extra={FIELDS: fields})


class Rarely:
    """An event that strangers can cause as often as they like: one line a while, with how many there were."""

    def __init__(self, name: str, *, level: LogLevel = "warning", pause_s: float = 1.0) -> None:
        self._name = name
        self._level: LogLevel = level
        self._pause_s = pause_s
        self._next_s = 0.0
        self._untold = 0

    def __call__(self, **fields: object) -> None:
        self._untold += 1
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._pause_s
            times = {"times": self._untold} if self._untold > 1 else {}
            self._untold = 0
            log_event(self._name, level=self._level, **fields, **times)
