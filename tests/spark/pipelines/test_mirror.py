"""`mirror` between two real brokers: each record once, settings and groups followed, no loops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from tests.spark.conftest import QUIET
from tests.spark.pipelines.test_archive import commit, committed, contents, next_record, send, settings_of

from qanat.model.errors import QanatError
from qanat.spark.copying import copy_target
from qanat.spark.options.options import Access
from qanat.spark.pipelines.bundled import micro_batches
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.spark.sink.batch_sender import Sender
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET


@pytest.fixture
def oslo() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def paris() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def mirror(spark: SparkSession, source: EmbeddedBroker, target: EmbeddedBroker, **settings: str) -> int:
    run_options = RunOptions(source.bootstrap_servers, is_available_now=True)
    given = {"to": target.bootstrap_servers, **settings}
    (tally,) = watch(named("mirror").launch(spark, given, run_options), Stop())
    return tally.written


def change(broker: EmbeddedBroker, topic: str, partitions: int, retention_ms: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(240)
    entry = ConfigEntry("retention.ms", retention_ms, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(240)


def test_a_mirror_shows_all_that_is_at_the_source(
    spark: SparkSession, paris: EmbeddedBroker, oslo: EmbeddedBroker
) -> None:
    paris.create_topic("orders", partitions=2, configs={"retention.ms": "-1"})
    send(paris, "orders", range(400), 2)
    commit(paris, "billing", "orders", {0: 60, 1: 10})
    assert mirror(spark, paris, oslo, pattern="ord.*", limit_bytes="20k", batch_time="all") == 400
    assert contents(oslo, "orders") == contents(paris, "orders")
    assert settings_of(oslo, "orders") == {"retention.ms": "-1"}
    assert committed(oslo, "billing", "orders", 2) == [60, 10]

    change(paris, "orders", 3, "86400000000")
    send(paris, "orders", range(400, 700))
    ends = [sum(one[0] == partition for one in contents(paris, "orders")) for partition in range(3)]
    commit(paris, "billing", "orders", {0: ends[0], 1: ends[1] - 5, 2: 1})
    assert mirror(spark, paris, oslo, pattern="ord.*") == 300
    assert mirror(spark, paris, oslo, pattern="ord.*") == 0
    assert contents(oslo, "orders") == contents(paris, "orders")
    assert settings_of(oslo, "orders") == {"retention.ms": "86400000000"}
    found = committed(oslo, "billing", "orders", 3)
    for partition, old in ((0, ends[0]), (1, ends[1] - 5), (2, 1)):
        assert next_record(oslo, "orders", partition, found[partition]) == next_record(paris, "orders", partition, old)

    # Back again would be a loop; on under another name, it is one still.
    with pytest.raises(QanatError, match="topic orders came from the target by a mirror"):
        mirror(spark, oslo, paris, topics="orders")
    with pytest.raises(QanatError, match=r"all topics of pattern \.\* came from the target"):
        mirror(spark, oslo, paris, pattern=".*", prefix="oslo.")
    assert paris.topics() == ["orders"]


@pytest.mark.parametrize("driver", ["here", "on another machine"])
def test_rows_of_a_large_batch_pass_from_executors_to_the_target_and_their_offsets_are_known(
    spark: SparkSession, paris: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    senders: list[Sender] = []

    def noted(access: Access) -> Sender:
        senders.append(Sender(access))
        return senders[-1]

    monkeypatch.setattr(copy_target, "Sender", noted)
    if driver != "here":
        monkeypatch.setattr(copy_target, "host_identity", lambda: "another machine")
    paris.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": paris.bootstrap_servers})
    for number in range(8_000):
        producer.produce("orders", b"%d" % number + b"." * 200, partition=number % 2)
    assert producer.flush(240) == 0
    commit(paris, "billing", "orders", {0: 2_500, 1: 3_999})

    with EmbeddedBroker(data_dir=tmp_path / "data") as oslo:
        assert mirror(spark, paris, oslo, topics="orders", limit_bytes="600k", batch_time="all") == 8_000

        assert contents(oslo, "orders") == contents(paris, "orders")
        found = committed(oslo, "billing", "orders", 2)
        assert next_record(oslo, "orders", 0, found[0]) == next_record(paris, "orders", 0, 2_500)
        assert next_record(oslo, "orders", 1, found[1]) == next_record(paris, "orders", 1, 3_999)
        assert not [path for path in (tmp_path / "data").glob("broker-*/staging/**/*") if path.is_file()]
    assert 0 < sum(sender.sent_bytes for sender in senders) < 0.05 * 8_000 * 200


def test_micro_batches_that_the_client_plans_for_spark_connect_copy_each_record_once(
    spark: SparkSession, paris: EmbeddedBroker, oslo: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "is_connect", lambda _: True)
    paris.create_topic("orders", partitions=2)
    send(paris, "orders", range(400), 2)

    assert mirror(spark, paris, oslo, pattern="ord.*", limit_bytes="20k", batch_time="all") == 400
    send(paris, "orders", range(400, 500), 2)
    assert mirror(spark, paris, oslo, pattern="ord.*") == 100
    assert mirror(spark, paris, oslo, pattern="ord.*") == 0

    assert contents(oslo, "orders") == contents(paris, "orders")


def test_topics_that_cannot_be_mirrored_are_refused(
    spark: SparkSession, paris: EmbeddedBroker, oslo: EmbeddedBroker
) -> None:
    for broker in (paris, oslo):
        broker.create_topic("orders", partitions=1)
        send(broker, "orders", range(3), 1)

    with pytest.raises(QanatError, match="topic orders exists at the target, with 3 records"):
        mirror(spark, paris, oslo, topics="orders")
    with pytest.raises(QanatError, match="would be copied into itself: give a prefix"):
        mirror(spark, paris, paris, topics="orders")
    with pytest.raises(QanatError, match="there is no topic ordres; did you mean orders"):
        mirror(spark, paris, oslo, topics="ordres")
    with pytest.raises(QanatError, match="__consumer_offsets is an internal topic of brokers"):
        mirror(spark, paris, oslo, topics="__consumer_offsets")
    with pytest.raises(QanatError, match="no broker can be reached"):
        mirror(spark, paris, oslo, topics="orders", to="127.0.0.1:1")
    for given, message in (
        ({"topics": "a"}, "to is missing"),
        ({"to": "a:b", "topics": "a"}, "'a:b' is no address"),
        ({"to": "a:1"}, "no topics"),
        ({"to": "a:1", "pattern": "("}, "is not a regular expression"),
        ({"to": "a:1", "topics": "a", "start": "middle"}, "start is 'middle', but must be earliest or latest"),
        ({"to": "a:1", "topics": "a", "every": "often"}, "every: 'often' is not a duration"),
    ):
        with pytest.raises(QanatError, match=message):
            named("mirror").check(given)
