"""A backlog of one partition, read by one task, and the memory of the worker that reads it."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.servers import qanat

from bench.spark.memory import WorkerMemory
from qanat.spark.session import session

_SIZE = 1000


def largest_worker(folder: Path, backlog_gb: float) -> float:
    """Megabytes of the largest Python worker while so much was read."""
    records = int(backlog_gb * 1e9 / _SIZE)
    with qanat().running(folder) as running, WorkerMemory() as memory:
        spark = session("backlog", "local[2]", {"spark.ui.enabled": "false", "spark.driver.memory": "2g"})
        # The producer must stay until its messages are acknowledged.
        admin = AdminClient({"bootstrap.servers": running.address})
        admin.create_topics([NewTopic("backlog", 1, 1)])["backlog"].result(60)
        access = {"kafka.bootstrap.servers": running.address}
        rows = spark.range(0, records, 1, 2).selectExpr(f"cast(repeat('x', {_SIZE}) as binary) value")
        rows.write.format("qanat").mode("append").options(**access, topic="backlog").save()
        memory.largest_mb = 0.0
        spark.read.format("qanat").options(**access, subscribe="backlog").load().write.format("noop").mode(
            "overwrite"
        ).save()
        spark.stop()
    return memory.largest_mb
