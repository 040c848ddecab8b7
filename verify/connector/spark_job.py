"""The Spark program that runs all cases on one broker through one format, in the environment of either format.

python spark_job.py FORMAT BOOTSTRAP CASES ANSWERS SCRATCH [JARS]

CASES is JSON with `batches`, `streams`, `refused`, `writes` and, for a stream that is written, `written`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FAULTS = (PySparkException, Py4JError)
ATTEMPTS = 10


def plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if value is not None else None


def rows(frame: DataFrame) -> list[Any]:
    return sorted((plain([*row]) for row in frame.collect()), key=json.dumps)


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that ran to its end. Spark gives Python ten seconds to start; on a busy machine the job retries."""
    for left in reversed(range(ATTEMPTS)):
        query = start()
        try:
            query.awaitTermination()
        except FAULTS as fault:
            if not left or "failed to connect back" not in str(fault):
                raise
        else:
            return query
    raise AssertionError("the last attempt returns or raises")


def session(name: str, jars: list[str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("connector comparison")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    if jars:
        builder = builder.config("spark.jars", jars[0])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if name == "qanat":
        from qanat.spark.source import register

        register(spark)
    return spark


def main() -> None:
    name, bootstrap, cases_path, answers_path, scratch, *jars = sys.argv[1:]
    spark = session(name, jars)
    with open(cases_path) as source:
        cases = json.load(source)
    access = {"kafka.bootstrap.servers": bootstrap}
    answers: dict[str, Any] = {"spark": spark.version}

    def read(options: dict[str, str]) -> DataFrame:
        return spark.read.format(name).options(**access, **options).load()

    for case, options in cases.get("batches", {}).items():
        try:
            frame = read(options)
            answers["batch: " + case] = {"schema": frame.schema.simpleString(), "rows": rows(frame)}
        except FAULTS as fault:
            answers["batch: " + case] = {"fault": str(fault)[:2000]}
    for case, options in cases.get("refused", {}).items():
        try:
            answers["refused: " + case] = {"refused": False, "rows": rows(read(options))}
        except FAULTS:
            answers["refused: " + case] = {"refused": True}
    for number, (case, options) in enumerate(cases.get("streams", {}).items()):
        table = f"stream{number}"
        frame = spark.readStream.format(name).options(**access, **options).load()
        writing = frame.writeStream.format("memory").queryName(table).trigger(availableNow=True)
        try:
            query = finished(writing.option("checkpointLocation", f"{scratch}/{table}").start)
        except FAULTS as fault:
            answers["stream: " + case] = {"fault": str(fault)[:2000]}
            continue
        ends = [source["endOffset"] for one in query.recentProgress for source in one["sources"]][-1:]
        ends = [json.loads(end) if isinstance(end, str) else end for end in ends]
        answers["stream: " + case] = {"rows": rows(spark.table(table)), "end": ends}
    for case, write in cases.get("writes", {}).items():
        try:
            frame = spark.range(0, 20, 1, 2).selectExpr(*write["columns"])
            frame.write.format(name).mode("append").options(**access, **write["options"]).save()
            found = read({"subscribe": write["topic"], "includeHeaders": "true"})
            answers["write: " + case] = rows(found.select("key", "value", "partition", "headers"))
        except FAULTS:
            answers["write: " + case] = {"refused": True}
    for topic, count in cases.get("written", {}).items():
        frame = spark.range(0, count, 1, 3).selectExpr("cast(id as string) key", "concat('value ', id) value")
        frame.write.format(name).options(**access, topic=topic).save()
        stream = spark.readStream.format(name).options(**access, subscribe=topic, startingOffsets="earliest").load()
        copying = stream.selectExpr("key", "upper(cast(value as string)) value").writeStream.format(name)
        copying = copying.options(**access, topic=topic + "-copy", checkpointLocation=f"{scratch}/copy")
        finished(copying.trigger(availableNow=True).start)
        for one in (topic, topic + "-copy"):
            answers["written: " + one] = rows(read({"subscribe": one}).select("key", "value"))
    with open(answers_path, "w") as sink:
        json.dump(answers, sink)
    spark.stop()


main()
