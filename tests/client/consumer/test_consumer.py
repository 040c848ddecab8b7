"""The blocking consumer on a real broker: reading, offsets, seeking, errors."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.client.consumer.topics import new_topic, numbered, read, wait_until, write

from qanat.client import CalledOffsets, Consumer, SqliteOffsets, TopicPartition
from qanat.client.errors import ClientError, ClosedError, ForkedError, SerializationError, UnknownSettingError
from qanat.connection.faults import RefusedError, UnreachableError
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker

PROTOCOLS = pytest.mark.parametrize("protocol", ["consumer", "classic"])


def consumer_of(broker: EmbeddedBroker, topic: str, **settings: object) -> Consumer:
    return Consumer(broker.bootstrap_servers, topic, **{"auto_offset_reset": "earliest", **settings})  # type: ignore[arg-type]


@PROTOCOLS
def test_a_group_reads_everything_once_and_continues_where_it_ended(kept_broker: EmbeddedBroker, protocol: str) -> None:
    topic = new_topic(kept_broker, 3)
    write(kept_broker.bootstrap_servers, topic, numbered(1000))
    settings = {"group": f"g-{topic}", "group_protocol": protocol}
    with consumer_of(kept_broker, topic, **settings) as consumer:
        first = read(consumer, 1000)
    write(kept_broker.bootstrap_servers, topic, numbered(10, 1000))
    with consumer_of(kept_broker, topic, **settings) as consumer:
        second = read(consumer, 10)

    assert sorted(first, key=int) == numbered(1000)
    assert sorted(second, key=int) == numbered(10, 1000)


def test_records_have_their_headers_keys_and_times(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    producer = Producer({"bootstrap.servers": kept_broker.bootstrap_servers})
    producer.produce(topic, None, key=b"k", headers=[("a", b"1"), ("b", None)], timestamp=12345)
    producer.flush()
    with consumer_of(kept_broker, topic) as consumer:
        (record,) = consumer.poll(timeout_s=30)

    assert (record.topic, record.partition, record.offset) == (topic, 0, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", None, 12345)
    assert record.headers == (("a", b"1"), ("b", None))
    assert record.topic_partition == TopicPartition(topic, 0)


def test_a_failed_handler_leaves_its_record_uncommitted(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(100))
    at = TopicPartition(topic, 0)

    def handle() -> None:
        with consumer_of(kept_broker, topic, group=f"g-{topic}") as consumer:
            for record in consumer:
                if record.offset == 40:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle()
    with consumer_of(kept_broker, topic, group=f"g-{topic}") as consumer:
        assert consumer.committed(at) == {at: 40}
        record = next(iter(consumer))

    assert record.offset == 40


def test_an_iteration_that_ends_loses_nothing_of_what_was_fetched(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(100))
    with consumer_of(kept_broker, topic) as consumer:
        for record in consumer:
            if record.offset == 40:
                break
        assert consumer.position(TopicPartition(topic, 0)) == 41
        rest = read(consumer, 59)

    assert rest == numbered(59, 41)


def test_seeking_goes_by_offset_by_time_and_to_the_ends(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    producer = Producer({"bootstrap.servers": kept_broker.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
    producer.flush()
    at = TopicPartition(topic, 0)
    with consumer_of(kept_broker, topic) as consumer:
        assert len(read(consumer, 10)) == 10
        consumer.seek(at, 7)
        assert read(consumer, 3) == [b"7", b"8", b"9"]
        consumer.seek(at, datetime.fromtimestamp(1_700_000_005, UTC))
        assert read(consumer, 5)[0] == b"5"
        consumer.seek(at, "earliest")
        assert read(consumer, 10)[0] == b"0"
        consumer.seek(at, "latest")
        wait_until(lambda: consumer.position(at) == 10)
        with pytest.raises(ClientError, match="not assigned"):
            consumer.seek(TopicPartition(topic, 9), 0)


def test_a_seek_within_an_iteration_skips_what_was_in_hand(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(100))
    seen = []
    with consumer_of(kept_broker, topic) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 10:
                consumer.seek(record.topic_partition, 90)
            if record.offset == 99:
                break

    assert seen == [*range(11), *range(90, 100)]


def test_a_paused_partition_rests_and_others_go_on(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker, 2)
    producer = Producer({"bootstrap.servers": kept_broker.bootstrap_servers})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    zero = TopicPartition(topic, 0)
    with consumer_of(kept_broker, topic) as consumer:
        consumer.pause(zero)
        odd = read(consumer, 10)
        assert consumer.poll(timeout_s=0.2) == []
        assert consumer.lag[TopicPartition(topic, 1)] == 0
        consumer.resume(zero)
        even = read(consumer, 10)

    assert odd == [b"%d" % number for number in range(1, 20, 2)]
    assert even == [b"%d" % number for number in range(0, 20, 2)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_large_compressed_batches_are_read(kept_broker: EmbeddedBroker, codec: str) -> None:
    topic = new_topic(kept_broker)
    values = [os.urandom(500) * 2 for _ in range(400)]
    write(kept_broker.bootstrap_servers, topic, values, **{"compression.type": codec, "linger.ms": 200})
    with consumer_of(kept_broker, topic) as consumer:
        assert read(consumer, 400) == values


def test_aborted_records_are_left_out_for_readers_of_committed_ones(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    producer = Producer({"bootstrap.servers": kept_broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    with consumer_of(kept_broker, topic, isolation_level="read_committed", group=f"g-{topic}") as consumer:
        at = TopicPartition(topic, 0)
        assert read(consumer, 3) == [b"0", b"2", b"4"]
        wait_until(lambda: consumer.position(at) == 12, lambda: consumer.poll(timeout_s=0.1))
        consumer.commit()
        assert consumer.committed(at) == {at: 12}


def test_a_deleted_offset_is_reported_once_and_the_policy_followed(
    kept_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(10))
    at = TopicPartition(topic, 0)
    with consumer_of(kept_broker, topic) as consumer:
        consumer.seek(at, 500)
        assert read(consumer, 10) == numbered(10)
        assert "offset 500" in consumer.health.problem
    with consumer_of(kept_broker, topic, auto_offset_reset="error") as consumer:
        with pytest.raises(ClientError, match="no committed offset"):
            consumer.poll(timeout_s=30)
        consumer.seek(at, 500)
        with pytest.raises(ClientError, match=r"offset 500 of .* is not there"):
            consumer.poll(timeout_s=30)
        assert consumer.poll(timeout_s=0.1) == []
        consumer.seek(at, 3)
        assert read(consumer, 7) == numbered(7, 3)

    assert [line for line in caplog.messages if "offset 500" in line] == [
        f"offset 500 of {topic}-0 is not there: continuing at the earliest (auto.offset.reset)",
        f"offset 500 of {topic}-0 is not there: seek to another offset, or set auto.offset.reset",
    ]


@pytest.mark.parametrize(("policy", "first"), [("earliest", 6), ("latest", 10)])
def test_a_committed_offset_that_was_deleted_follows_the_policy(
    kept_broker: EmbeddedBroker, policy: str, first: int
) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(10))
    at = TopicPartition(topic, 0)
    with consumer_of(kept_broker, topic, group=f"g-{topic}", enable_auto_commit=False) as consumer:
        assert len(read(consumer, 10)) == 10
        consumer.commit({at: 2})
    admin = AdminClient({"bootstrap.servers": kept_broker.bootstrap_servers})
    for future in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 6)]).values():
        future.result()
    with consumer_of(kept_broker, topic, group=f"g-{topic}", auto_offset_reset=policy) as consumer:
        wait_until(lambda: consumer.assignment == {at} and consumer.position(at) == first)
        write(kept_broker.bootstrap_servers, topic, [b"10"])
        assert read(consumer, 11 - first) == numbered(11 - first, first)
        assert f"offset 2 of {at} is not there" in consumer.health.problem


@pytest.mark.parametrize("kind", ["sqlite", "functions"])
def test_offsets_may_be_kept_elsewhere(kept_broker: EmbeddedBroker, tmp_path: Path, kind: str) -> None:
    topic = new_topic(kept_broker, 2)
    write(kept_broker.bootstrap_servers, topic, numbered(100))
    kept: dict[TopicPartition, int] = {}
    store = (
        SqliteOffsets(tmp_path / "offsets.db")
        if kind == "sqlite"
        else CalledOffsets(
            lambda _, partitions: {at: kept[at] for at in partitions if at in kept}, lambda _, new: kept.update(new)
        )
    )
    with consumer_of(kept_broker, topic, group=f"g-{topic}", offset_store=store) as consumer:
        assert len(read(consumer, 100)) == 100
    write(kept_broker.bootstrap_servers, topic, [b"more"])
    with consumer_of(kept_broker, topic, group=f"g-{topic}", offset_store=store) as consumer:
        assert read(consumer, 1) == [b"more"]
    with consumer_of(kept_broker, topic, group=f"g-{topic}") as consumer:
        assert len(read(consumer, 101)) == 101  # The broker has none.


def test_a_store_that_fails_is_reported_and_a_seek_goes_on(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(10))

    def fail(*_: object) -> None:
        raise OSError("the disk is away")

    store = CalledOffsets(fail, fail)
    with consumer_of(kept_broker, topic, group=f"g-{topic}", offset_store=store) as consumer:
        with pytest.raises(ClientError, match=r"cannot be loaded: .*the disk is away"):
            consumer.poll(timeout_s=30)
        consumer.seek(TopicPartition(topic, 0), 4)
        assert read(consumer, 6) == numbered(6, 4)
        with pytest.raises(ClientError, match=r"cannot be saved: .*the disk is away"):
            consumer.commit()


class Numbers:
    """Reads numbers, refuses what is none."""

    def decode(self, topic: str, data: bytes | None, headers: object = ()) -> int:
        try:
            return int(data or b"")
        except ValueError:
            raise SerializationError(f"{topic}: {data!r} is no number") from None


def test_an_unreadable_value_stops_before_it_and_a_seek_skips_it(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, [b"1", b"2", b"x", b"4"])
    with consumer_of(kept_broker, topic, value=Numbers()) as consumer:
        assert [record.value for record in consumer.poll(timeout_s=30)] == [1, 2]
        for _ in range(2):
            with pytest.raises(SerializationError, match=r"at offset 2: .*'x' is no number"):
                consumer.poll()
        consumer.seek(TopicPartition(topic, 0), 3)
        assert [record.value for record in consumer.poll(timeout_s=30)] == [4]


def test_arrow_batches_hold_all_rows_and_at_most_so_many(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker, 2)
    write(kept_broker.bootstrap_servers, topic, numbered(1000))
    rows: list[dict[str, object]] = []
    with consumer_of(kept_broker, topic) as consumer:
        for batch in consumer.arrow(300, every_s=0.2):
            assert 0 < batch.num_rows <= 300
            rows += batch.to_pylist()
            if len(rows) == 1000:
                break

    assert sorted(int(row["value"]) for row in rows) == list(range(1000))  # type: ignore[call-overload]
    assert {row["topic"] for row in rows} == {topic}
    assert rows[0]["headers"] == []


def test_arrow_after_records_continues_with_the_next_one(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(100))
    with consumer_of(kept_broker, topic) as consumer:
        first = [record.value for record in consumer.poll(30, timeout_s=30)]
        rest = [row["value"] for row in next(consumer.arrow(100, every_s=0.1)).to_pylist()]

    assert first + rest == numbered(100)


def test_wrong_use_is_one_clear_sentence(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    with pytest.raises(UnknownSettingError, match="did you mean auto_offset_reset"):
        Consumer("localhost:9092", "t", auto_offset_rest="earliest")
    with pytest.raises(InvalidSettingError, match="a consumer without topics reads nothing"):
        Consumer("localhost:9092", group="g")
    with pytest.raises(UnreachableError, match="nothing listens there"):
        Consumer("127.0.0.1:1", "t", bootstrap_timeout_ms=0).poll()
    with pytest.raises(RefusedError, match=f"there is no topic {topic}x; did you mean {topic}"):
        consumer_of(kept_broker, topic + "x").poll()
    consumer = consumer_of(kept_broker, topic)
    with consumer, pytest.raises(ClientError, match="has no group"):
        _ = consumer.group_metadata
    with pytest.raises(ClosedError):
        consumer.poll()


def test_a_fork_cannot_use_its_parents_consumer(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    with consumer_of(kept_broker, topic) as consumer:
        child = os.fork()
        if child == 0:
            try:
                consumer.poll()
            except ForkedError:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
