"""Every way to use Qanat from Spark, in one session: `python workloads.py {classic,connect} BROKER OTHER FOLDER`.

It prints a line of JSON for each workload: its name, and the number of records at its end or the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.pipelines.spark_errors import spark_reason
from qanat.spark.pipelines.spark_retries import with_spark_retries
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS = 300
MINUTE_MS = 60_000
START_MS = 1_750_003_200_000
YAML = """
name: big
sources:
  numbers: {topic: numbers}
steps:
  out: {sql: "select value from numbers where cast(cast(value as string) as int) >= 100"}
sinks:
  big: {from: out, topic: big}
"""


class Workloads:
    """The workloads, by their names; each returns a number of records."""

    def __init__(self, kind: str, broker: str, other: str, folder: str) -> None:
        builder = SparkSession.builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.shuffle.partitions", "2")
        self.spark = (builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")).getOrCreate()
        self._broker, self._other, self._folder = broker, other, Path(folder)
        self._access = {"kafka.bootstrap.servers": broker}

    def every(self) -> dict[str, Callable[[], int]]:
        return {
            "write": self.write,
            "read": lambda: self.count("numbers"),
            "write, exactly once": self.write_once,
            "stream": self.stream,
            "stream, exactly once": self.stream_once,
            "metrics": self.metrics,
            "archive": self.archive,
            "replay": self.replay,
            "mirror": self.mirror,
            "yaml": self.yaml,
        }

    def count(self, topic: str, address: str | None = None) -> int:
        access = {"kafka.bootstrap.servers": address} if address else self._access
        reader = self.spark.read.format("qanat").options(**access).option("subscribe", topic)
        return with_spark_retries("count", lambda: reader.load().count())

    def numbers(self) -> DataFrame:
        return self.spark.range(RECORDS).selectExpr("cast(id as string) as value")

    def write(self) -> int:
        self.numbers().write.format("qanat").options(**self._access, topic="numbers").mode("append").save()
        return self.count("numbers")

    def write_once(self) -> int:
        staging = str(self._folder / "staging")
        options = {**self._access, "topic": "once", "delivery": "exactly-once", "stagingLocation": staging}
        self.numbers().write.format("qanat").options(**options).mode("append").save()
        return self.count("once")

    def stream(self, topic: str = "streamed", **options: str) -> int:
        source = self.spark.readStream.format("qanat").options(**self._access, startingOffsets="earliest")
        writer = source.option("subscribe", "numbers").load().select("value").writeStream.format("qanat")
        writer = writer.options(**self._access, topic=topic, checkpointLocation=str(self._folder / topic), **options)
        writer = writer.trigger(availableNow=True)
        # A query that failed only because the machine was busy continues from its checkpoint.
        with_spark_retries("stream", lambda: writer.start().awaitTermination())
        return self.count(topic)

    def stream_once(self) -> int:
        return self.stream("streamed-once", delivery="exactly-once")

    def metrics(self) -> int:
        """Ten minutes of one series, thirty measurements each, and one that closes their windows."""
        text = '{"id": "%d", "metric": "m", "source": "s", "time": %d, "value": %d}'
        times = [START_MS + number * MINUTE_MS // 30 for number in range(RECORDS)] + [START_MS + 120 * MINUTE_MS]
        rows = [(text % (number, time_ms, number), time_ms) for number, time_ms in enumerate(times)]
        frame = self.spark.createDataFrame(rows, "value string, at bigint")
        frame = frame.selectExpr("value", "timestamp_millis(at) as timestamp")
        frame.write.format("qanat").options(**self._access, topic="metrics.inbound").mode("append").save()
        self._launch("metrics", lake=str(self._folder / "metrics-lake"))
        return self.count("metrics.rollup")

    def archive(self) -> int:
        self._launch("archive", topics="numbers", lake=str(self._folder / "lake"))
        return self.spark.read.parquet(str(self._folder / "lake" / "topic=numbers")).count()

    def replay(self) -> int:
        self._launch("replay", lake=str(self._folder / "lake"), prefix="back.")
        return self.count("back.numbers")

    def mirror(self) -> int:
        self._launch("mirror", topics="numbers", to=self._other)
        return self.count("numbers", self._other)

    def yaml(self) -> int:
        run_options = RunOptions(self._broker, str(self._folder / "big"), is_available_now=True)
        watch(yaml_pipeline(YAML).launch(self.spark, {}, run_options), Stop())
        return self.count("big")

    def _launch(self, pipeline: str, **settings: str) -> None:
        run_options = RunOptions(self._broker, str(self._folder / f"run-{pipeline}"), is_available_now=True)
        watch(named(pipeline).launch(self.spark, settings, run_options), Stop())


def main() -> None:
    workloads = Workloads(*sys.argv[1:])
    sys.stdout.write(json.dumps({"spark": workloads.spark.version}) + "\n")
    for name, act in workloads.every().items():
        try:
            found: int | str = act()
        except Exception as fault:  # noqa: BLE001
            found = f"{type(fault).__name__}: {spark_reason(fault)}"
        sys.stdout.write(json.dumps({"workload": name, "found": found}) + "\n")
        sys.stdout.flush()
    workloads.spark.stop()


if __name__ == "__main__":
    main()
