"""What Spark gives up on a busy machine is tried again, and nothing else is."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from qanat.spark.pipelines.spark_retries import TRIES, patiently


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


def test_what_was_too_slow_is_tried_again() -> None:
    assert patiently("source a", Spark(TRIES - 1, TOO_SLOW)) == "done"


def test_what_is_always_too_slow_is_told_in_the_end() -> None:
    spark = Spark(TRIES, TOO_SLOW)
    with pytest.raises(PySparkException, match="failed to connect back"):
        patiently("source a", spark)
    assert spark.asked == TRIES


def test_what_is_wrong_is_told_at_once() -> None:
    spark = Spark(1, "no such topic")
    with pytest.raises(PySparkException, match="no such topic"):
        patiently("source a", spark)
    assert spark.asked == 1
