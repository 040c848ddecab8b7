"""The Spark program that logs in through Spark's own Kafka connector, once for each case.

python spark_job.py JARS JAVA_OPTION CASES ANSWERS

CASES is JSON: a list of `settings`, `topic` and `values`; an answer has what was read or the `error`, for a write and
for a read. Nothing of Qanat is imported: any PySpark runs it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

FAULTS = (PySparkException, Py4JError)


def words(fault: Exception) -> str:
    """What Spark says, with the causes, where Java has them."""
    java = getattr(fault, "java_exception", None) or getattr(fault, "_origin", None)
    causes: list[str] = []
    while java is not None and len(causes) < 10:
        causes.append(str(java.toString()))
        java = java.getCause()
    return "\n".join([str(fault)[:2000], *causes])


def attempt(spark: SparkSession, case: dict[str, Any]) -> dict[str, Any]:
    access = {f"kafka.{name}": value for name, value in case["settings"].items()}
    answer: dict[str, Any] = {}
    try:
        frame = spark.createDataFrame([(0, value) for value in case["values"]], "partition int, value string")
        frame.coalesce(1).write.format("kafka").options(**access, topic=case["topic"]).save()
    except FAULTS as fault:
        answer["write"] = words(fault)
    try:
        reading = {"subscribe": case["topic"], "fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "10"}
        rows = spark.read.format("kafka").options(**access, **reading).load().orderBy("offset").collect()
        answer["read"] = [bytes(row.value).decode() for row in rows]
    except FAULTS as fault:
        answer["error"] = words(fault)
    return answer


def main() -> None:
    jars, option, cases_path, answers_path = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").appName("logins").config("spark.jars", jars)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.extraJavaOptions", option)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with open(cases_path) as source:
        cases = json.load(source)
    answers = [attempt(spark, case) for case in cases]
    with open(answers_path, "w") as sink:
        json.dump(answers, sink)
    spark.stop()


main()
