"""Spark operations that fail on a busy machine are retried, and no others."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from qanat.spark.pipelines.spark_retries import TRIES, with_spark_retries


class Spark:
    """Fails as it does, some times."""

    def __init__(self, times: int, message: str) -> None:
        self.times = times
        self.message = message
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.times:
            raise PySparkException(self.message)
        return "done"


TOO_SLOW = "[STREAM_FAILED] terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


def test_slow_starts_are_retried() -> None:
    assert with_spark_retries("source a", Spark(TRIES - 1, TOO_SLOW)) == "done"


def test_a_start_that_is_always_too_slow_is_raised_in_the_end() -> None:
    spark = Spark(TRIES, TOO_SLOW)
    with pytest.raises(PySparkException, match="failed to connect back"):
        with_spark_retries("source a", spark)
    assert spark.asked == TRIES


def test_other_errors_are_raised_at_once() -> None:
    spark = Spark(1, "no such topic")
    with pytest.raises(PySparkException, match="no such topic"):
        with_spark_retries("source a", spark)
    assert spark.asked == 1
