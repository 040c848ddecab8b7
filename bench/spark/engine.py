"""A program that runs workloads in one environment of Spark; for Spark's own connector it imports nothing of Qanat.

python engine.py WHICH BOOTSTRAP RECORDS SIZE SCRATCH [JARS]

WHICH is `qanat`, `kafka` (the connector) or `ceiling`. It prints one line of JSON when Spark is there, then reads a
workload and a number from a line (`write 0`), prints "ready" when it is warm, waits for another line, runs the
workload, and prints its seconds: those of the work, then those before it began. Only a stream has the latter: a query
is started once, and then runs for months. The end of the input is its end.

Spark ends Python workers that were idle for a minute, and the turns of others may take longer; a pipeline keeps them
busy. So every workload runs with a few rows first, without timing.
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
FEW_MAX = 4_000


class Workloads:
    """The workloads of a side. Each takes its number and the number of rows."""

    def __init__(self, which: str, bootstrap: str, records: int, size: int, scratch: str, jars: str | None) -> None:
        builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
        if jars:
            builder = builder.config("spark.jars", jars)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self._is_ceiling = which == "ceiling"
        self._records, self._size, self._scratch = records, size, scratch
        self._name, self._access = which, {"kafka.bootstrap.servers": bootstrap}
        if which == "qanat":
            from qanat.spark.source import register

            register(self.spark)
        if self._is_ceiling:
            from bench.spark.ceiling import Memory

            self.spark.dataSource.register(Memory)
            self._name = Memory.name()
            self._access = {"rows": str(records), "size": str(size), "tasks": str(PARTITIONS)}

    def run(self, workload: str, number: str) -> tuple[float, float]:
        """Seconds of the work itself, and before it began."""
        acts: dict[str, Callable[[str, int], float | None]] = {
            "write": self._write,
            "once": self._once,
            "fill": self._fill,
            "read": self._read,
            "stream": self._stream,
        }
        act = acts[workload]
        act(number, min(FEW_MAX, self._records // 2))
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        before = act(number, self._records) or 0.0
        return time.perf_counter() - began - before, before

    def _write_to(self, topic: str, count: int, **options: str) -> None:
        value = f"cast(repeat('x', {self._size}) as binary) value"
        rows = self.spark.range(0, count, 1, PARTITIONS).selectExpr(value)
        writer = rows.write.format(self._name).mode("append").options(**self._access, **options)
        (writer if self._is_ceiling else writer.option("topic", topic)).save()

    def _write(self, number: str, count: int) -> None:
        self._write_to(f"bench-write-{number}", count)

    def _once(self, number: str, count: int) -> None:
        staging = f"{self._scratch}/staging"
        self._write_to(f"bench-once-{number}", count, delivery="exactly-once", stagingLocation=staging)

    def _fill(self, _: str, count: int) -> None:
        if count == self._records:
            self._write_to("bench-read", count)

    def _read(self, _: str, count: int) -> None:
        reader = self.spark.read.format(self._name).options(**self._access)
        if self._is_ceiling:
            reader = reader.option("rows", str(count))
        else:
            end = count // PARTITIONS if count < self._records else -1
            ends = {"bench-read": {str(number): end for number in range(PARTITIONS)}}
            reader = reader.options(subscribe="bench-read", endingOffsets=json.dumps(ends))
        reader.load().write.format("noop").mode("overwrite").save()

    def _stream(self, number: str, count: int) -> float:
        if count < self._records:
            self._read(number, count)
            return 0.0
        began = time.perf_counter()
        reader = self.spark.readStream.format(self._name).options(**self._access)
        if not self._is_ceiling:
            reader = reader.options(subscribe="bench-read", startingOffsets="earliest")
        kept = f"{self._scratch}/stream-{number}"
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", kept)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took = time.perf_counter() - began
        triggers = query.recentProgress
        seen = sum(one.numInputRows for one in triggers)
        assert seen == count, f"the stream had {seen} rows instead of {count}"
        return took - sum(one.durationMs["triggerExecution"] for one in triggers) / 1000


def main() -> None:
    which, bootstrap, records, size, scratch, *jars = sys.argv[1:]
    workloads = Workloads(which, bootstrap, int(records), int(size), scratch, jars[0] if jars else None)
    spark = workloads.spark
    machine = spark._jvm
    assert machine is not None, "Spark runs in this process's own virtual machine"
    java = machine.java.lang.System.getProperty("java.version")
    print(json.dumps({"spark": spark.version, "java": java}), flush=True)
    for line in sys.stdin:
        print(json.dumps(workloads.run(*line.split())), flush=True)
    spark.stop()


main()
