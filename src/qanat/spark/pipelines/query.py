"""A streaming query that restarts if Spark ended it only because the machine was busy (`spark_retries`).

Its progress is in its checkpoint: it continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_retries import TRIES, is_too_slow, log_retry, with_spark_retries

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Query:
    """`where` names the query in errors; `start` starts it, and may be called again."""

    def __init__(self, where: str, start: Callable[[], StreamingQuery]) -> None:
        self._where = where
        self._start = start
        self._failed = 0
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

    def resumes_after(self, fault: Exception) -> bool:
        """Restart, if the error is only that a process took too long to start. Raises `PipelineError`."""
        self._failed = self._failed + 1 if self._query.lastProgress is None else 1
        if not is_too_slow(fault) or self._failed == TRIES:
            return False
        log_retry(self._where)
        self._query = self._begun()
        return True

    def _begun(self) -> StreamingQuery:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return with_spark_retries(self._where, self._start)
        except (PySparkException, Py4JError) as fault:
            raise PipelineError(f"{self._where}: {spark_reason(fault)}") from None
