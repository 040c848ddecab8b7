"""A streaming query that restarts where only the machine failed it (`spark_faults`), after a while.

Its progress is in its checkpoint: it continues where it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.spark.pipelines.back_off import BackOff
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_faults import machine_fault, text_of
from qanat.spark.pipelines.spark_retries import with_spark_retries

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class Query:
    """`where` names the query in errors; `start` starts it, and may be called again."""

    def __init__(self, where: str, start: Callable[[], StreamingQuery]) -> None:
        self._where = where
        self._start = start
        self._back_off = BackOff()
        self._resume_at: float | None = None
        self.restarts = 0
        self._query = self._begun()

    @property
    def id(self) -> Any:
        return self._query.id

    @property
    def name(self) -> str | None:
        return self._query.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._query.isActive

    @property
    def status(self) -> dict[str, Any]:
        return self._query.status

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self._query.lastProgress

    @property
    def recentProgress(self) -> Any:  # noqa: N802
        return self._query.recentProgress

    def exception(self) -> Exception | None:
        return self._query.exception()

    def stop(self) -> None:
        self._query.stop()

    @property
    def continues_by_launch(self) -> bool:
        """Whether the position is kept outside the checkpoint, so that only another launch reads it."""
        return False

    def resumes_after(self, fault: Exception) -> bool:
        """Restart after a fault of the machine, once the back-off is over; to be called again until then.

        Raises `PipelineError` where the query does not start.
        """
        if self._resume_at is None:
            sentence = machine_fault(text_of(fault))
            wait_s = self._back_off.next_wait_s(has_progress=self._query.lastProgress is not None)
            if sentence is None or wait_s is None:
                return False
            _log.warning("%s: %s; it continues in %.0f s", self._where, sentence, wait_s)
            self._resume_at = time.monotonic() + wait_s
        if time.monotonic() >= self._resume_at:
            self._resume_at = None
            self._query = self._begun()
            self.restarts += 1
        return True

    def _begun(self) -> StreamingQuery:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return with_spark_retries(self._where, self._start)
        except (PySparkException, Py4JError) as fault:
            raise PipelineError(f"{self._where}: {spark_reason(fault)}") from None
