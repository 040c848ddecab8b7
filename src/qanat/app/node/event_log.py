"""Log events on stderr: one line each, for people (`text`) or for programs (`json`).

    2026-01-31T09:30:00.125Z info  started node=1 address=127.0.0.1:9092

Python's own `logging` carries them, so that events of libraries look the same; `telemetry.events` writes them.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from qanat.telemetry.events import FIELDS, LogLevel

LogFormat = Literal["text", "json"]


def configure(form: LogFormat, level: LogLevel) -> None:
    """Send all log events from that level on to stderr, in that form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonForm() if form == "json" else _TextForm())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _time(record: logging.LogRecord) -> str:
    created = datetime.fromtimestamp(record.created, UTC)
    return created.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _TextForm(logging.Formatter):
    """Time, level, phrase, `name=value`; a value with spaces or control characters is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, FIELDS, {})
        parts = [_time(record), f"{record.levelname.lower():<7}", record.getMessage()]
        line = " ".join([*parts, *(f"{name}={_shown(value)}" for name, value in fields.items())])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonForm(logging.Formatter):
    """One object per line, a traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _shown(value: object) -> str:
    text = str(value)
    is_plain = bool(text) and text.isprintable() and " " not in text and '"' not in text
    return text if is_plain else json.dumps(text)
