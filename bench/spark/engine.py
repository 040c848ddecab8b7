"""A program that runs the workloads in one environment of Spark; it needs nothing of ours for Spark's own connector.

python engine.py WHICH BOOTSTRAP RECORDS SIZE SCRATCH [JARS]

WHICH is `qanat`, `kafka` (the connector) or `ceiling`. Prints one line of JSON: seconds of each workload, in order.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession

PARTITIONS = 4
RUNS = 4
"""The first one warms up."""


def main() -> None:
    which, bootstrap, records_told, size_told, scratch, *jars = sys.argv[1:]
    records, size = int(records_told), int(size_told)
    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
    if jars:
        builder = builder.config("spark.jars", jars[0])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    name, access = which, {"kafka.bootstrap.servers": bootstrap}
    if which == "qanat":
        from qanat.spark.source import register

        register(spark)
    if which == "ceiling":
        from bench.spark.ceiling import Memory

        spark.dataSource.register(Memory)
        name, access = Memory.name(), {"rows": str(records), "size": str(size), "tasks": str(PARTITIONS)}
    rows = spark.range(0, records, 1, PARTITIONS).selectExpr(f"cast(repeat('x', {size}) as binary) value")
    seconds: dict[str, list[float]] = {}

    def measure(workload: str, run: Callable[[int], None]) -> None:
        taken = []
        for number in range(RUNS):
            began = time.perf_counter()
            run(number)
            taken.append(time.perf_counter() - began)
        seconds[workload] = taken[1:]

    def write(topic: str, **options: str) -> None:
        writer = rows.write.format(name).mode("append").options(**access, **options)
        (writer if which == "ceiling" else writer.option("topic", topic)).save()

    def read(_: int) -> None:
        reader = spark.read.format(name).options(**access)
        frame = reader.load() if which == "ceiling" else reader.option("subscribe", "bench-read").load()
        frame.write.format("noop").mode("overwrite").save()

    def stream(number: int) -> None:
        reader = spark.readStream.format(name).options(**access)
        if which != "ceiling":
            reader = reader.options(subscribe="bench-read", startingOffsets="earliest")
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", f"{scratch}/stream-{number}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    measure("write", lambda number: write(f"bench-write-{number}"))
    if which == "qanat":
        staging = {"delivery": "exactly-once", "stagingLocation": f"{scratch}/staging"}
        measure("write exactly once", lambda number: write(f"bench-once-{number}", **staging))
    if which != "ceiling":
        write("bench-read")
    measure("batch read", read)
    measure("stream read", stream)
    print(json.dumps({"spark": spark.version, "seconds": seconds}))
    spark.stop()


main()
