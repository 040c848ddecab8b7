"""Batches sent to a broker, and staging, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.sink.batch_sender import Rounds, Sender
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.outgoing_columns import EncodedBatch, RowsError, Target
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.staging import Staging, StagingError
from qanat.testing import EmbeddedBroker
from qanat.wire.batch_header import check_stored_batch
from qanat.wire.columns import decode_columns
from qanat.wire.compression import Codec
from qanat.wire.records import set_producer


def test_a_batch_that_the_topic_finds_too_large_says_what_helps() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 100, pa.binary())], ["value"])
    with EmbeddedBroker() as broker, Sender(Access(broker.bootstrap_servers)) as sender:
        broker.create_topic("narrow", configs={"max.message.bytes": 2000})
        sender.init_idempotent()
        whole = Encoder(Target("narrow", Codec.NONE, 1_000_000, has_headers=False), {"narrow": 1})
        with pytest.raises(RowsError, match=r"narrow partition 0 .*a smaller kafka.batch.size"):
            sender.send_all(whole.encode(rows))
        parts = Encoder(Target("narrow", Codec.NONE, 1_500, has_headers=False), {"narrow": 1})

        assert sender.send_all(parts.encode(rows)) == 100
        assert len(broker.records("narrow")) == 100


def test_rows_that_belong_nowhere_are_dealt_out_in_batches_of_one_size() -> None:
    values = [b"%05d" % number + b"x" * 95 for number in range(10_000)]
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.binary()), pa.nulls(10_000, pa.binary())], ["value", "key"])
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3})

    dealt = list(encoder.encode(rows))

    assert [one.at.partition for one in dealt] == [1, 2]
    assert all(len(one.batch) > 400_000 for one in dealt)
    read = [decode_columns([one.batch], limit_bytes=2_000_000) for one in dealt]
    assert b"".join(bytes(columns.values.data) for columns in read) == b"".join(values)
    assert [columns.keys.null_count for columns in read] == [one.rows for one in dealt]


@pytest.mark.parametrize("count", [100, 30_000], ids=["in the message", "in a file"])
def test_what_is_staged_comes_back_and_may_be_written_to(count: int, tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * count, pa.binary())], ["value"])
    batches = list(Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3}).encode(rows))
    staging = Staging(str(tmp_path))
    staged = staging.stage("batch-0", batches)

    for _ in range(2):  # What is written to one's own copy is in no other.
        found = list(staging.read(staged))
        assert [(one.at, one.rows, bytes(one.batch)) for one in found] == [
            (one.at, one.rows, bytes(one.batch)) for one in batches
        ]
        assert set_producer(found[0].batch, 7, 0, 0, is_transactional=True) == found[0].rows
        check_stored_batch(found[0].batch)


def test_what_is_taken_is_gone_and_can_be_used_all_the_same(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 30_000, pa.binary())], ["value"])
    batches = list(Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3}).encode(rows))
    staging = Staging(str(tmp_path))
    staged = staging.stage("batch-0", batches)
    assert Path(staged.path or "").exists()

    found = list(staging.take(staged))

    assert not Path(staged.path or "").exists()
    assert [bytes(one.batch) for one in found] == [bytes(one.batch) for one in batches]


def test_what_is_taken_and_cannot_be_deleted_is_there_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit does not fail for it."""
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 30_000, pa.binary())], ["value"])
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3})
    staging = Staging(str(tmp_path))
    staged = staging.stage("batch-0", encoder.encode(rows))

    def refuse(path: Path) -> None:
        raise PermissionError(f"{path} is not ours")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert sum(one.rows for one in staging.take(staged)) == 30_000


def test_a_staged_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 30_000, pa.binary())], ["value"])
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3})
    staging = Staging(str(tmp_path))
    staged = staging.stage("batch-0", encoder.encode(rows))
    file = Path(staged.path or "")
    whole = file.read_bytes()

    for spoiled, reason in [
        (whole[:-1], "shorter than its task reported"),
        (b"", "shorter than its task reported"),
    ]:
        file.write_bytes(spoiled)
        with pytest.raises(CorruptBatchError, match=reason):
            list(staging.read(staged))


def test_a_staged_file_that_was_changed_is_refused_by_the_broker_and_nothing_of_it_is_seen(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 30_000, pa.binary())], ["value"])
    staging = Staging(str(tmp_path))
    with EmbeddedBroker() as broker:
        broker.create_topic("wide", partitions=3)
        access = Access(broker.bootstrap_servers)
        encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3})
        staged = staging.stage("batch-0", encoder.encode(rows))
        file = Path(staged.path or "")
        whole = file.read_bytes()
        for spoiled in (whole[:-1] + b"?", whole[:17] + b"\0\0\0\0" + whole[21:]):
            file.write_bytes(spoiled)
            with pytest.raises(CorruptBatchError, match=r"staged rows were changed since .*checksum mismatch"):
                commit_once(access, "some-id", "some-group", 0, staging.read(staged))
        file.write_bytes(whole)
        assert commit_once(access, "some-id", "some-group", 0, staging.read(staged))

        assert _committed(broker.bootstrap_servers, "wide") == 30_000


def _committed(address: str, topic: str) -> int:
    """How many records a reader sees who sees only what was committed."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "counting", "enable.partition.eof": True})
    consumer.assign([KafkaPartition(topic, number, OFFSET_BEGINNING) for number in range(3)])
    seen, ends = 0, 0
    try:
        while ends < 3:
            message = consumer.poll(30)
            assert message is not None, "the topic ends somewhere"
            fault = message.error()
            if fault is None:
                seen += 1
            else:
                assert fault.code() == KafkaError._PARTITION_EOF
                ends += 1
    finally:
        consumer.close()
    return seen


def test_a_folder_that_cannot_be_staged_in_is_named_and_nothing_is_to_be_dropped_there(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 15_000, pa.binary())], ["value"])
    batches = list(Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 3}).encode(rows))
    (tmp_path / "file").touch()

    for location, reason in [(f"{tmp_path}/file/in", "cannot be written to"), ("odd://place", "odd")]:
        with pytest.raises(StagingError, match=f"rows are staged in .*{reason}.*stagingLocation"):
            Staging(location).stage("batch-0", batches)
        Staging(location).drop("batch-0")

    staged = Staging(str(tmp_path)).stage("batch-0", batches)
    Staging(str(tmp_path)).drop("batch-0")
    with pytest.raises(StagingError, match="cannot be read from"):
        list(Staging(str(tmp_path)).read(staged))


def test_a_header_without_a_key_is_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=True), {"wide": 3})

    def encoded(headers: list[object]) -> int:
        rows = pa.RecordBatch.from_arrays(
            [pa.array([b"v"], pa.binary()), pa.array([headers], kind)], ["value", "headers"]
        )
        return sum(one.rows for one in encoder.encode(rows))

    assert encoded([{"key": "", "value": None}]) == 1
    for spoiled in ({"key": None, "value": b"v"}, None):
        with pytest.raises(RowsError, match="a header without a key"):
            encoded([spoiled])


def test_of_partitions_dealt_to_in_turn_each_round_takes_half_so_that_the_next_is_for_the_others() -> None:
    rounds = Rounds()
    dealt = [EncodedBatch(TopicPartition("wide", number % 4), bytearray(1000), 1) for number in range(16)]

    finished = [sent for batch in dealt if (sent := rounds.full_before(batch))]

    assert all(len(sent) <= 2 for sent in finished)
    for one, next_one in pairwise(finished[2:]):  # Once all partitions have been seen.
        assert one.keys().isdisjoint(next_one.keys())
    assert sum(map(len, finished)) + len(rounds.rest()) == 16


def test_rounds_without_a_common_partition_are_in_flight_together_and_in_order() -> None:
    values = [b"%06d" % number + b"x" * 94 for number in range(40_000)]
    rows = [
        pa.RecordBatch.from_arrays([pa.array(values[at : at + 10_000], pa.binary())], ["value"])
        for at in range(0, len(values), 10_000)
    ]
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 4})
    with EmbeddedBroker() as broker, Sender(Access(broker.bootstrap_servers)) as sender:
        broker.create_topic("wide", partitions=4)
        sender.init_idempotent()
        sender.landed = {}

        assert sender.send_all(batch for one in rows for batch in encoder.encode(one)) == 40_000
        found = broker.records("wide")

    assert sorted(record.value or b"" for record in found) == values
    for number in range(4):
        of_partition = [record.value or b"" for record in found if record.partition == number]
        assert of_partition == sorted(of_partition)
    assert all(parts == sorted(parts) for parts in sender.landed.values())
    assert sum(map(len, sender.landed.values())) == 8
    assert sum(rows for parts in sender.landed.values() for _, rows in parts) == 40_000


def test_a_fault_of_the_rows_leaves_nothing_on_its_way() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * 100] * 10_000, pa.binary())], ["value"])
    encoder = Encoder(Target("wide", Codec.NONE, 1_000_000, has_headers=False), {"wide": 4})

    def failing() -> Iterator[EncodedBatch]:
        for _ in range(3):
            yield from encoder.encode(rows)
        raise RowsError("the next row is broken")

    with EmbeddedBroker() as broker, Sender(Access(broker.bootstrap_servers)) as sender:
        broker.create_topic("wide", partitions=4)
        sender.init_idempotent()
        with pytest.raises(RowsError, match="the next row is broken"):
            sender.send_all(failing())
        there = len(broker.records("wide"))

        assert sender.send_all(encoder.encode(rows)) == 10_000
        assert len(broker.records("wide")) == there + 10_000
