"""A program that runs workloads in one environment of Spark; it needs nothing of ours for Spark's own connector.

python engine.py WHICH BOOTSTRAP RECORDS SIZE SCRATCH [JARS]

WHICH is `qanat`, `kafka` (the connector) or `ceiling`. It prints one line of JSON when Spark is there, then reads a
workload and a number from each line (`write 0`), runs that, and prints its seconds: those of the work, then those
before it began. Only a stream has the latter: a query is started once, and then runs for months. The end of the input
is its end.

Spark ends Python workers that were idle for a minute, and the turns of others may take longer; a pipeline keeps them
busy. So every workload is run with a few rows first, which nobody times.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession

PARTITIONS = 4
FEW_MAX = 4_000


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

    def write_to(topic: str, count: int, **options: str) -> None:
        rows = spark.range(0, count, 1, PARTITIONS).selectExpr(f"cast(repeat('x', {size}) as binary) value")
        writer = rows.write.format(name).mode("append").options(**access, **options)
        (writer if which == "ceiling" else writer.option("topic", topic)).save()

    def write(number: str, count: int) -> None:
        write_to(f"bench-write-{number}", count)

    def write_once(number: str, count: int) -> None:
        write_to(f"bench-once-{number}", count, delivery="exactly-once", stagingLocation=f"{scratch}/staging")

    def fill(_: str, count: int) -> None:
        if count == records:
            write_to("bench-read", count)

    def read(_: str, count: int) -> None:
        reader = spark.read.format(name).options(**access)
        if which == "ceiling":
            reader = reader.option("rows", str(count))
        else:
            ends = {str(number): count // PARTITIONS if count < records else -1 for number in range(PARTITIONS)}
            reader = reader.options(subscribe="bench-read", endingOffsets=json.dumps({"bench-read": ends}))
        reader.load().write.format("noop").mode("overwrite").save()

    def stream(number: str, count: int) -> float:
        if count < records:
            read(number, count)
            return 0.0
        began = time.perf_counter()
        reader = spark.readStream.format(name).options(**access)
        if which != "ceiling":
            reader = reader.options(subscribe="bench-read", startingOffsets="earliest")
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", f"{scratch}/stream-{number}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took = time.perf_counter() - began
        triggers = query.recentProgress
        seen = sum(one.numInputRows for one in triggers)
        assert seen == records, f"the stream had {seen} rows instead of {records}"
        return took - sum(one.durationMs["triggerExecution"] for one in triggers) / 1000

    runs = {"write": write, "once": write_once, "fill": fill, "read": read, "stream": stream}
    machine = spark._jvm
    assert machine is not None, "Spark runs in this process's own virtual machine"
    java = machine.java.lang.System.getProperty("java.version")
    print(json.dumps({"spark": spark.version, "java": java}), flush=True)
    for line in sys.stdin:
        workload, number = line.split()
        runs[workload](number, min(FEW_MAX, records // 2))
        began = time.perf_counter()
        before = runs[workload](number, records) or 0.0
        print(json.dumps([time.perf_counter() - began - before, before]), flush=True)
    spark.stop()


main()
