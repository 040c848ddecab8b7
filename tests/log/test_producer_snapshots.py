"""Producer snapshots: Kafka's bytes, and a log that does not need them."""

from __future__ import annotations

import struct

import pytest
from tests.log.batches import (
    FOLDER,
    NOW,
    Writer,
    append,
    batch,
    disk_with,
    end_transaction,
    flush,
    image,
    new_log,
    reopened,
)

from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot, encode_snapshot
from qanat.log.producers import Producers
from qanat.log.segments import file_names
from qanat.wire.batch_header import read_header
from qanat.wire.crc import crc32c


def one_producer() -> Producers:
    producers = Producers()
    producers.record(read_header(batch(3, writer=Writer(258, 2, 4), is_transactional=True)), 16, NOW)
    return producers


def test_the_bytes_are_kafkas_version_one() -> None:
    entry = bytes.fromhex(
        "0000000000000102"  # producer id 258
        "0002"  # epoch
        "00000006"  # last sequence: 4, 5, 6
        "0000000000000012"  # last offset: 16, 17, 18
        "00000002"  # offset delta
        "0000018bcfe56800"  # timestamp
        "ffffffff"  # coordinator epoch: none yet
        "0000000000000010"  # current transaction's first offset
    )
    body = bytes.fromhex("00000001") + entry
    assert encode_snapshot(one_producer()) == bytes.fromhex("0001") + struct.pack(">I", crc32c(body)) + body


def test_the_last_entry_of_a_producer_is_its_newest_which_is_the_one_that_kafka_keeps() -> None:
    producers = Producers()
    for sequence in range(7):
        producers.record(read_header(batch(writer=Writer(7, 0, sequence))), sequence, NOW + sequence)
    body = encode_snapshot(producers)[10:]
    entries = list(struct.iter_unpack(">qhiqiqiq", body))
    assert [entry[2] for entry in entries] == [2, 3, 4, 5, 6]
    assert entries[-1] == (7, 0, 6, 6, 0, NOW + 6, -1, -1)


def test_a_producer_known_by_a_marker_alone_is_kept() -> None:
    log = new_log()
    end_transaction(log, 7, is_commit=True, epoch=3)
    loaded = decode_snapshot(encode_snapshot(log.producers))
    assert loaded is not None
    assert loaded.states == log.producers.states
    assert loaded.states[7].epoch == 3


def test_a_snapshot_of_nobody_is_sound() -> None:
    loaded = decode_snapshot(encode_snapshot(Producers()))
    assert loaded is not None
    assert len(loaded) == 0


def test_open_transactions_come_back() -> None:
    loaded = decode_snapshot(encode_snapshot(one_producer()))
    assert loaded is not None
    assert loaded.first_unstable_offset(100) == 16


def test_c62_a_torn_snapshot_is_not_believed_at_any_length() -> None:
    content = encode_snapshot(one_producer())
    for length in range(len(content)):
        assert decode_snapshot(content[:length]) is None, length


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    content = encode_snapshot(one_producer())
    for bit in range(8 * len(content)):
        rotten = bytearray(content)
        rotten[bit // 8] ^= 1 << bit % 8
        assert decode_snapshot(bytes(rotten)) is None, bit


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_wrong_count_is_noticed_though_the_checksum_holds(count: int) -> None:
    body = struct.pack(">i", count) + encode_snapshot(one_producer())[10:]
    assert decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body) is None


def rolled_log() -> PartitionLog:
    """Three producers over several segments; one of them in a transaction."""
    log = new_log(segment_bytes=400)
    for sequence in range(12):
        append(log, batch(2, writer=Writer(1, 0, 2 * sequence)))
        append(log, batch(1, writer=Writer(2, 5, sequence), is_transactional=True))
        if sequence % 3 == 2 and sequence < 11:
            end_transaction(log, 2, is_commit=sequence % 2 == 0, epoch=5)
    append(log, batch(1, writer=Writer(3, 1, 0)))
    flush(log)
    return log


EMPTY = b""
GARBAGE = b"\x00\x01garbage"


@pytest.mark.parametrize("content", [None, EMPTY, GARBAGE], ids=["missing", "empty", "garbage"])
def test_a_log_whose_snapshots_are_of_no_use_knows_its_producers_all_the_same(content: bytes | None) -> None:
    log = rolled_log()
    files = image(log.files)
    snapshots = [name for name in files if name.endswith(file_names.SNAPSHOT)]
    assert len(snapshots) > 2
    for name in snapshots:
        del files[name]
        if content is not None:
            files[name] = content
    assert reopened(log, disk_with(files)).producers.states == log.producers.states


def test_a_torn_snapshot_falls_back_to_the_one_before() -> None:
    log = rolled_log()
    files = image(log.files)
    newest = max(name for name in files if name.endswith(file_names.SNAPSHOT))
    files[newest] = files[newest][:-1]
    assert reopened(log, disk_with(files)).producers.states == log.producers.states


def test_a_snapshot_newer_than_the_log_is_removed_and_not_believed() -> None:
    log = rolled_log()
    stray = file_names.segment_file(FOLDER, log.end_offset + 1, file_names.SNAPSHOT).rpartition("/")[2]
    opened = reopened(log, disk_with({**image(log.files), stray: encode_snapshot(one_producer())}))
    assert opened.producers.states == log.producers.states
    assert stray not in opened.files.list(FOLDER)


def test_a_snapshot_inside_the_open_segment_does_not_hide_its_aborted_transactions() -> None:
    log = new_log()
    append(log, batch(writer=Writer(1), is_transactional=True))
    end_transaction(log, 1, is_commit=False)
    flush(log)
    stray = file_names.segment_file(FOLDER, log.end_offset, file_names.SNAPSHOT).rpartition("/")[2]
    opened = reopened(log, disk_with({**image(log.files), stray: encode_snapshot(log.producers)}))
    assert opened.aborted_transactions(0, 100) == log.aborted_transactions(0, 100) != []
