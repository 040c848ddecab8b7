"""The driver: copies topic to topic and topic to lake up to the end, and prints each finished batch.

python -m verify.spark_fire.job MASTER BOOTSTRAP FOLDER RECORDS_PER_BATCH
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from qanat.spark.session import SHORT_LIVED_JAVA, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE, SINK = "source", "sink"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Executors and workers are killed more often here than Spark's defaults allow.
    "spark.task.maxFailures": "20",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.excludeOnFailure.enabled": "false",
}
_PAUSE_S = 0.1


def copying(
    spark: SparkSession, bootstrap: str, folder: Path, per_batch: int
) -> dict[str, Callable[[], StreamingQuery]]:
    """Functions that start the two queries."""

    def source() -> DataFrame:
        reading = spark.readStream.format("qanat").option("kafka.bootstrap.servers", bootstrap)
        reading = reading.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(per_batch))
        return reading.option("subscribe", SOURCE).load()

    def to_topic() -> StreamingQuery:
        writing = source().select("key", "value", "partition").writeStream.format("qanat")
        writing = writing.option("kafka.bootstrap.servers", bootstrap).option("topic", SINK)
        writing = writing.option("delivery", "exactly-once").option("checkpointLocation", str(folder / "topic"))
        # The broker is on this machine, but is treated as one on another.
        writing = writing.option("localIngest", "false")
        return writing.trigger(availableNow=True).start()

    def to_lake() -> StreamingQuery:
        writing = source().selectExpr("partition", "offset", "cast(value as string) value").writeStream
        writing = writing.format("parquet").option("path", str(folder / "lake"))
        return writing.option("checkpointLocation", str(folder / "lake-checkpoint")).trigger(availableNow=True).start()

    return {"topic": to_topic, "lake": to_lake}


def is_slow_machine(fault: BaseException) -> bool:
    """Spark gives a Python process ten seconds to start, which a busy machine may not have."""
    return "failed to connect back" in str(fault)


def main() -> int:
    master, bootstrap, folder, per_batch = sys.argv[1:]
    spark = session("fire", master, _SETTINGS)
    starting = copying(spark, bootstrap, Path(folder), int(per_batch))
    running = {name: start() for name, start in starting.items()}
    seen = dict.fromkeys(starting, -1)
    while running:
        for name, query in list(running.items()):
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > seen[name]:
                seen[name] = progress["batchId"]
                print(name, seen[name], flush=True)
            if query.isActive:
                continue
            fault = query.exception()
            if fault is None:
                del running[name]
            elif is_slow_machine(fault):
                running[name] = starting[name]()
            else:
                raise fault
        time.sleep(_PAUSE_S)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
