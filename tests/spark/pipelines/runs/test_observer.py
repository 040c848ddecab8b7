"""`qanat.spark.observe` on a real Spark: any query, its lag in records and seconds, for Prometheus."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families
from tests.spark.conftest import QUIET

from qanat.spark import observe
from qanat.spark.pipelines.runs.observer import Observer
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET
TIMEOUT_S = 120


def start(spark: SparkSession, broker: EmbeddedBroker, topic: str, folder: Path, name: str) -> Any:
    """A query that reads 4 records, and the others in an hour."""
    reader = spark.readStream.format("qanat").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4)
    writer = frame.load().writeStream.queryName(name).option("checkpointLocation", str(folder / name))
    return writer.format("noop").trigger(processingTime="1 hour").start()


def signalled(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event for the first report that the observer got."""
    reported, take = threading.Event(), observer.progressed

    def progressed(key: str, report: Mapping[str, Any]) -> None:
        take(key, report)
        reported.set()

    monkeypatch.setattr(observer, "progressed", progressed)
    return reported


def test_any_query_is_observed_with_its_lag(
    spark: SparkSession, broker: EmbeddedBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"x", partition=number % 2, timestamp=round(time.time() * 1000) - 50_000)
    assert producer.flush(60) == 0
    with observe(spark, 0, broker.bootstrap_servers) as exact, observe(spark) as plain:
        reported = [signalled(one, monkeypatch) for one in (exact, plain)]
        query = start(spark, broker, topic, tmp_path, "watched")
        try:
            assert all(one.wait(TIMEOUT_S) for one in reported)
            (seen,) = plain.queries()
            assert exact.address is not None
            with urllib.request.urlopen(exact.address, timeout=60) as answer:
                families = {one.name: one.samples for one in text_string_to_metric_families(answer.read().decode())}
        finally:
            query.stop()

    assert (seen.query, seen.rows, seen.batches) == ("watched", 4, 1)
    assert seen.lag[topic].records == 6
    assert 0 <= (seen.lag[topic].seconds or 0) < 50
    (records,) = families["qanat_pipeline_topic_lag_records"]
    assert (records.labels, records.value) == ({"query": "watched", "topic": topic}, 6)
    assert 50 <= families["qanat_pipeline_lag_seconds"][0].value < 50 + TIMEOUT_S
    assert families["qanat_pipeline_rows"][0].value == 4
