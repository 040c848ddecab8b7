"""`archive` and `replay` with a real Spark and a real broker: each record is restored once and unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from tests.spark.conftest import QUIET

from qanat.model.errors import QanatError
from qanat.spark.lake.lake import Lake
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.definition import Source
from qanat.spark.pipelines.frames import read_table
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.progress import Tally
from qanat.spark.pipelines.query_watch import Stop, watch
from qanat.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = QUIET

NOON_MS = 1_767_268_800_000
"""2026-01-01T12:00: the first record's time; each is a second after the one before."""

Run = Callable[..., list[str]]


@pytest.fixture
def run(spark: SparkSession, broker: EmbeddedBroker) -> Run:
    """A pipeline that does what is there and ends; what it printed."""

    def run(pipeline: str, **settings: str) -> list[str]:
        lines: list[str] = []
        run_options = RunOptions(broker.bootstrap_servers, is_available_now=True, print_line=lines.append)
        watch(
            named(pipeline).launch(spark, {key.rstrip("_"): value for key, value in settings.items()}, run_options),
            Stop(),
        )
        return lines

    return run


def send(broker: EmbeddedBroker, topic: str, numbers: range, partitions: int = 3) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(
            topic,
            None if number % 10 == 0 else b"value %d" % number,
            key=None if number % 7 == 0 else b"key %d" % (number % 5),
            headers=[("h", b"%d" % number), ("h", None), ("empty", b"")] if number % 2 else None,
            timestamp=NOON_MS + number * 1000,
            partition=number % partitions,
        )
    assert producer.flush(240) == 0


def contents(broker: EmbeddedBroker, topic: str) -> list[tuple[Any, ...]]:
    """All that records are besides their offsets, by partition and in order."""
    return [(one.partition, one.key, one.value, one.headers, one.timestamp) for one in broker.records(topic)]


def commit(broker: EmbeddedBroker, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(broker: EmbeddedBroker, group: str, topic: str, partitions: int = 3) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=240)
    consumer.close()
    return [one.offset for one in found]


def next_record(broker: EmbeddedBroker, topic: str, partition: int, offset: int) -> Any:
    """What a consumer reads next who stands there."""
    behind = (one for one in broker.records(topic) if one.partition == partition and one.offset >= offset)
    return next(((one.key, one.value, one.timestamp) for one in behind), None)


def settings_of(broker: EmbeddedBroker, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(240)
    return {name: one.value for name, one in found.items() if one.source == 1}


def failing(run: Run, pipeline: str, **settings: str) -> str:
    with pytest.raises(QanatError) as raised:
        run(pipeline, **settings)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.long
@pytest.mark.data
def test_a_backup_is_restored_with_all_that_it_was(
    spark: SparkSession, broker: EmbeddedBroker, run: Run, topic: str, tmp_path: Path
) -> None:
    lake, settings = str(tmp_path / "lake"), {"retention.ms": "-1", "max.message.bytes": "20000"}
    broker.create_topic(f"{topic}-x", partitions=3, configs=settings)
    topic = f"{topic}-x"
    send(broker, topic, range(600))
    commit(broker, "billing", topic, {0: 100, 1: 30})
    run("archive", topics=topic, lake=lake, limit_bytes="20k", batch_time="all")
    send(broker, topic, range(600, 900))
    run("archive", topics=topic, lake=lake)
    commit(broker, "billing", topic, {0: 150})
    run("archive", topics=topic, lake=lake)
    archived = read_table(spark, Source(lake=lake))
    assert sorted(row.number for row in archived.selectExpr("partition + 3 * offset as number").collect()) == list(
        range(900)
    )

    found = Lake.open_existing(lake)
    assert sum(one.rows for one in found.contents.files.values()) == 900
    assert found.contents.topics[topic].settings == settings
    assert found.contents.groups["billing"] == {topic: {"0": 150, "1": 30}}

    (line, *_) = run("replay", lake=lake, prefix="r.", groups="billing", limit="200")
    assert line == "replay: 900 records written to 1 topic, 0 there already"
    restored = f"r.{topic}"
    assert contents(broker, restored) == contents(broker, topic)
    assert settings_of(broker, restored) == settings
    for partition, (old, new) in enumerate(zip([150, 30], committed(broker, "billing", restored), strict=False)):
        assert next_record(broker, restored, partition, new) == next_record(broker, topic, partition, old)

    # Run again, it changes nothing; and the drill says that both are the same.
    (line, *_) = run("replay", lake=lake, prefix="r.")
    assert line == "replay: 0 records written to 1 topic, 900 there already"
    assert len(contents(broker, restored)) == 900
    said = run("replay", lake=lake, prefix="r.", verify="true")
    assert len([one for one in said if "the same, checksum" in one]) == 3
    # The topic that was archived is compared in its own place, and what came later is none of the lake's business.
    send(broker, topic, range(900, 910))
    run("replay", lake=lake, verify="true")


@pytest.mark.long
def test_a_point_in_time_is_restored_and_a_difference_is_found(
    broker: EmbeddedBroker, run: Run, topic: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    send(broker, topic, range(300))
    run("archive", topics=topic, lake=lake)
    until, since = "2026-01-01T12:03:19", str(NOON_MS + 50_000)
    run("replay", lake=lake, rename=f"{topic}={topic}-then", until=until, from_=since)

    assert sorted(one[-1] for one in contents(broker, f"{topic}-then")) == [
        NOON_MS + number * 1000 for number in range(50, 200)
    ]
    place = {"lake": lake, "rename": f"{topic}={topic}-then", "verify": "true"}
    run("replay", until=until, from_=since, **place)
    assert "differ from the lake in 3 places" in failing(run, "replay", **place)

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(f"{topic}-then", b"one too many", partition=1)
    assert producer.flush(240) == 0
    with pytest.raises(QanatError, match="in 1 place"):
        run("replay", until=until, from_=since, **place)
    assert "not empty, and not written by this replay" in failing(run, "replay", lake=lake)
    assert "is not a lake" in failing(run, "replay", lake=str(tmp_path))
    assert "there is no topic" in failing(run, "archive", lake=lake, topics=f"{topic}-gone")
    assert "no topic matches pattern zzz" in failing(run, "archive", lake=lake, pattern="zzz")


def test_an_archive_that_is_stopped_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, run: Run, topic: str, tmp_path: Path
) -> None:
    lake, stop = str(tmp_path / "lake"), Stop()
    send(broker, topic, range(100))

    def look(tallies: list[Tally]) -> None:
        if tallies[0].batches >= 1:
            stop.request()

    given = {
        "topics": topic,
        "lake": lake,
        "enough": "10",
        "limit_bytes": "2k",
        "batch_time": "all",
        "state_every": "1 second",
    }
    (tally,) = watch(named("archive").launch(spark, given, RunOptions(broker.bootstrap_servers)), stop, look)
    assert 0 < tally.written == tally.rows <= 100
    assert tally.watermark is not None
    assert tally.watermark > "2026-01-01T12"
    run("archive", topics=topic, lake=lake)

    assert rows_of(spark, lake) == [(one[0], *one[1:3]) for one in contents(broker, topic)]


def rows_of(spark: SparkSession, lake: str) -> list[tuple[Any, ...]]:
    """Partition, key and value of every row of all files that lie there, committed or not."""
    found = spark.read.parquet(lake).orderBy("partition", "offset").select("partition", "key", "value").collect()
    return [
        (row[0], None if row[1] is None else bytes(row[1]), None if row[2] is None else bytes(row[2])) for row in found
    ]


@pytest.fixture
def alone() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def archiving(broker: EmbeddedBroker, lake: Path, *more: str) -> subprocess.Popen[bytes]:
    """`archive` in a process of its own, once four of its micro-batches are in the lake; `stderr` lies beside it."""
    command = [sys.executable, "-m", "qanat.app", "pipeline", "run", "archive", "--master", "local[1]", *more]
    command += ["--topics", "orders", "--lake", str(lake), "--limit-bytes", "8k", "--batch-time", "all"]
    command += ["--enough", "1"]
    command += ["-b", broker.bootstrap_servers, "--conf", "spark.ui.enabled=false"]
    said = lake.parent / "stderr"
    with said.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, cwd=lake.parent)
    deadline = time.monotonic() + 240
    while len(list(lake.glob("_qanat/commits/*.json"))) < 4:
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.long
@pytest.mark.data
def test_an_archive_that_is_killed_has_each_record_once(
    spark: SparkSession, alone: EmbeddedBroker, tmp_path: Path
) -> None:
    alone.create_topic("orders", partitions=2)
    send(alone, "orders", range(2000), 2)
    lake = tmp_path / "lake"
    process = archiving(alone, lake)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    # Files of a killed task, which no commit names.
    stray = lake / "topic=orders/date=2026-01-01/hour=12/00001-00000000000000000999.parquet"
    stray.write_bytes(b"half a file")
    committed_rows = sum(one.rows for one in Lake.open_existing(str(lake)).contents.files.values())
    assert 0 < committed_rows < 2000

    run_options = RunOptions(alone.bootstrap_servers, is_available_now=True)
    (tally,) = watch(named("archive").launch(spark, {"topics": "orders", "lake": str(lake)}, run_options), Stop())

    assert tally.written == 2000 - committed_rows
    assert rows_of(spark, str(lake)) == [(one[0], *one[1:3]) for one in contents(alone, "orders")]
    assert sum(Lake.open_existing(str(lake)).contents.offsets.values()) == 2000


def kill_pythons_of_spark(folder: Path, command: int) -> None:
    """Kill the Python processes that run in a folder, but for the command itself: whatever process forked them."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # Some end meanwhile.
            is_python = (process / "comm").read_text().startswith("python")
            if is_python and int(process.name) != command and (process / "cwd").readlink() == folder:
                os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.data
def test_an_archive_whose_python_processes_are_killed_says_so_and_continues(
    alone: EmbeddedBroker, tmp_path: Path
) -> None:
    alone.create_topic("orders", partitions=2)
    send(alone, "orders", range(2000), 2)
    lake, said = tmp_path / "lake", tmp_path / "stderr"
    process = archiving(alone, lake, "--available-now")
    deadline = time.monotonic() + 240
    while "it continues in" not in said.read_text():
        kill_pythons_of_spark(tmp_path, process.pid)
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)

    assert process.wait(240) == 0, said.read_text()
    assert "archive: a Python process" in said.read_text()
    assert sum(Lake.open_existing(str(lake)).contents.offsets.values()) == 2000
    assert sum(one.rows for one in Lake.open_existing(str(lake)).contents.files.values()) == 2000
