"""`qanat dev`: run a throw-away broker in memory."""

from __future__ import annotations

from qanat.app.node.serving import StartFlags, serve
from qanat.app.settings.loading import flag
from qanat.app.start.start import Assignments, LogFormatOption
from qanat.telemetry.events import LogLevel


def dev(
    *,
    port: int = 0,
    settings: Assignments = None,
    log_format: LogFormatOption = "text",
    log_level: LogLevel = "warning",
) -> int:
    """Run a throw-away broker in memory: quick, private, without data when it ends.

    It reads no files and no environment, and writes nothing to disk. Groups form at once.

        qanat dev --port 9092

    Parameters
    ----------
    port:
        Port of the Kafka listener; 0 takes a free one, which is printed.
    settings:
        Any setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events to log.
    """
    presets = [
        flag("storage.engine", "memory", "qanat dev"),
        flag("group.initial.rebalance.delay.ms", 0, "qanat dev"),
        flag("http.port", 0, "qanat dev"),
    ]
    flags = StartFlags(port=port, assignments=settings or (), log_format=log_format, log_level=log_level)
    return serve(flags, {}, presets)
