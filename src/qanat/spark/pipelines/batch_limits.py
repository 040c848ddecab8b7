"""The size of a pipeline's micro-batches: bounded in bytes and in time, unless the pipeline says otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qanat.spark.options.option_reader import A_SIZE, size
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of

ALL = "all"
"""As a limit: everything there is."""
LIMIT_BYTES, BATCH_TIME = "128m", "10 seconds"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Records, bytes and seconds of a micro-batch; None stands for the default, `all` for no limit."""

    limit: int | str | None = None
    limit_bytes: str | None = None
    batch_time: str | None = None

    @staticmethod
    def of(settings: Mapping[str, str]) -> BatchLimits:
        """From the settings `limit`, `limit_bytes` and `batch_time`; raises `PipelineError`."""
        found = BatchLimits(settings["limit"] or None, settings["limit_bytes"] or None, settings["batch_time"] or None)
        found.options()
        return found

    def options(self) -> dict[str, str | int]:
        """As options of `format("qanat")`; raises `PipelineError`."""
        if self.limit == ALL:
            return {}
        found: dict[str, str | int] = {}
        if self.limit is not None:
            found["maxOffsetsPerTrigger"] = _number(self.limit)
        limit_bytes = self.limit_bytes or LIMIT_BYTES
        if limit_bytes != ALL:
            _check_size(limit_bytes)
            found["maxBytesPerTrigger"] = limit_bytes
        batch_time = self.batch_time or BATCH_TIME
        if found and batch_time != ALL:
            found["targetBatchTime"] = f"{_seconds(batch_time)}s"
        return found


def _number(limit: int | str) -> int:
    text = str(limit)
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise PipelineError(f"limit is {text!r}, but must be a number of records above 0, or all")
    return int(text)


def _check_size(text: str) -> None:
    try:
        size(text)
    except (ValueError, KeyError):
        raise PipelineError(f"limit_bytes is {text!r}, but must be {A_SIZE}, or all") from None


def _seconds(text: str) -> int:
    try:
        return seconds_of(text)
    except ValueError as fault:
        raise PipelineError(f"batch_time: {fault}, or all") from None
