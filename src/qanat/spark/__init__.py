"""Spark: the data source `qanat`, its sink and the pipelines.

- `session`         a Spark session with everything set up; start here
- `java`            the Java that Spark starts
- `java_process`    its process: why it ended, and how another is started
- `machine_memory`  memory of the machine or container, and the heap of Java
- `worker_python`   the Python that Spark starts: `worker_launcher`, forked off `worker_zygote`
- `shipping`        an archive of Qanat for the executors of a cluster
- `source`          the data source: the class behind `format("qanat")`
- `spark_version`   the versions of PySpark that work
- `error_messages`  errors of Spark's processes as one sentence, without a traceback
- `options`         options of a read and of a write
- `offsets`         offsets of many partitions, and splits (pure)
- `schemas`         the columns of a read
- `ddl`             a check of columns in DDL (pure)
- `reads`           batch and streaming reads, on the driver and on executors
- `arrow`           columns of `wire.column_layout` as Arrow arrays
- `formats`         values as JSON, Avro, protobuf, CSV and text: typed columns
- `sink`            batch and streaming writes, at least once and exactly once
- `worker_memory`   memory of Spark's Python processes
- `host_identity`   which processes see the same files
- `lake`            the lake of an archive: Parquet files, and commits that say which count
- `copying`         records copied to topics once, with a durable map of their offsets
- `rollups`         measurements rolled up into windows, without Spark (pure)
- `pipelines`       pipelines in YAML and in Python, and those that come with Qanat

Rule 1: executors and drivers are users' processes: nothing here imports the broker.
Rule 2: no record becomes a Python object on the way: batches are decoded into column buffers natively. Exceptions are
        `formats`, as Avro and protobuf have no native column decoder, and `rollups`, where one broken record would send
        a whole column of JSON the slow way.
Rule 3: only `session`, `source`, `schemas`, the readers and writers and what runs a pipeline import PySpark; the rest
        is tested without it.

`register(spark)` registers `format("qanat")` with a session of your own; `observe(spark)` shows what its queries do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from qanat.spark.pipelines.runs.observer import Observer


def register(spark: SparkSession) -> None:
    """Register `format("qanat")` with a session: see `source.register`."""
    import pyspark

    from qanat.spark.spark_version import require_supported

    require_supported(pyspark.__version__)  # First: older versions lack what `source` imports.
    from qanat.spark import source

    source.register(spark)


def observe(
    spark: SparkSession,
    port: int | None = None,
    bootstrap: str | None = None,
    client: Mapping[str, str] | None = None,
) -> Observer:
    """Observe every streaming query of a session: speed, lag in records and seconds, watermark, state.

    With `port`, Prometheus reads it at `http://127.0.0.1:PORT/metrics`. With `bootstrap` (and `client`, settings in the
    names of Kafka's clients) the lag is that of the brokers at the time of reading.
    """
    from qanat.spark.pipelines.runs.observer import Observer

    return Observer(spark, port, bootstrap, client)
