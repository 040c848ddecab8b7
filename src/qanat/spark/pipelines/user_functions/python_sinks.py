"""Sinks in Python: a user's function that gets each micro-batch and its number.

Spark repeats a micro-batch with the same number where a run ended before it was done: a function that skips numbers
that it has written writes each row once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.model.errors import QanatError
from qanat.spark.pipelines.definition import Sink
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.user_functions.by_value import send_by_value
from qanat.spark.pipelines.user_functions.references import described, find_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SinkError(QanatError):
    """A user's function that raised in a micro-batch."""


def batch_function(sink: Sink, folder: str | None, where: str) -> Callable[[DataFrame, int], None]:
    """The sink's function for `foreachBatch`; it raises `SinkError` that names function and micro-batch."""
    from pyspark.errors import PySparkException

    assert sink.python is not None
    reference = sink.python
    function = find_function(reference, folder, where)
    send_by_value(folder)

    def write(batch: DataFrame, number: int) -> None:
        try:
            function(batch, number, **sink.options)
        except PySparkException as fault:
            raise SinkError(f"{where}: {reference} failed in micro-batch {number}: {spark_reason(fault)}") from None
        except Exception as fault:  # noqa: BLE001 - a user's function may raise anything
            reason = described(fault, reference)
            raise SinkError(f"{where}: {reference} failed in micro-batch {number}: {reason}") from None

    return write
