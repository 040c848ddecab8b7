"""Steps in Python as data frames: a function of data frames, or a function of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.spark.pipelines.definition import Step
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.user_functions.by_value import send_by_value
from qanat.spark.pipelines.user_functions.references import described, find_function
from qanat.spark.pipelines.user_functions.row_functions import RowFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def python_table(step: Step, tables: Mapping[str, DataFrame], folder: str | None, where: str) -> DataFrame:
    """The table that a step's function computes; raises `PipelineError` where it fails."""
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame as AnyDataFrame
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    if step.rows is not None:
        return _rows_table(step, step.rows, tables[step.inputs[0]], folder, where)
    assert step.python is not None
    function = find_function(step.python, folder, where)
    send_by_value(folder)
    try:
        found = function(*(tables[name] for name in step.inputs), **step.options)
    except (PySparkException, PipelineError):
        raise
    except Exception as fault:  # noqa: BLE001 - a user's function may raise anything
        raise PipelineError(f"{where}: {step.python} failed: {described(fault, step.python)}") from None
    if not isinstance(found, AnyDataFrame | ConnectDataFrame):
        raise PipelineError(f"{where}: {step.python} returned {type(found).__name__}, but must return a DataFrame")
    return found


def _rows_table(step: Step, reference: str, frame: DataFrame, folder: str | None, where: str) -> DataFrame:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    assert step.returns is not None
    schema = StructType.fromDDL(step.returns)
    assert isinstance(schema, StructType)
    function = find_function(reference, folder, where)
    send_by_value(folder)
    applied = RowFunction(where, reference, function, step.options, to_arrow_schema(schema, timezone="UTC"))
    return frame.mapInArrow(applied.map_batches, schema)
