"""Log events: a short phrase, and its fields.

    log_event("topic created", topic="orders", partitions=4)

Events go to Python's own `logging` under the name `qanat`; a program configures their
output (`app.node.event_log`), and without that nothing is written.
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


class RateLimitedEvent:
    """An event that clients can cause as often as they like: logged once per pause, with a count."""

    def __init__(self, name: str, *, level: LogLevel = "warning", pause_s: float = 1.0) -> None:
        self._name = name
        self._level: LogLevel = level
        self._pause_s = pause_s
        self._next_s = 0.0
        self._suppressed = 0

    def __call__(self, **fields: object) -> None:
        self._suppressed += 1
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._pause_s
            times = {"times": self._suppressed} if self._suppressed > 1 else {}
            self._suppressed = 0
            log_event(self._name, level=self._level, **fields, **times)
