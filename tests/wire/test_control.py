"""Transaction markers, as Kafka's clients read them."""

from __future__ import annotations

import struct

import pytest
from tests.wire.conftest import Wire
from tests.wire.judges import JUDGES
from tests.wire.samples import NOW

from qanat.model.errors import CorruptBatchError
from qanat.wire.batch_header import check_batch


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_comes_back(wire: Wire, is_commit: bool) -> None:
    marker = wire.control.Marker(is_commit, 12)

    batch = wire.control.encode_marker(
        marker, producer_id=77, producer_epoch=3, timestamp_ms=NOW, base_offset=500, leader_epoch=2
    )

    header = check_batch(batch)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (
        True,
        True,
        77,
        3,
    )
    assert (header.base_offset, header.leader_epoch, header.base_sequence, header.record_count) == (500, 2, -1, 1)
    assert wire.control.decode_marker(batch) == marker


def test_a_foreign_reader_sees_the_marker(wire: Wire) -> None:
    kafka_python = JUDGES[-1]
    for is_commit in (True, False):
        batch = wire.control.encode_marker(
            wire.control.Marker(is_commit, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW
        )
        (record,) = kafka_python.reader(bytes(batch))
        assert (record.commit, record.abort) == (is_commit, not is_commit)


def control_batch(wire: Wire, key: bytes | None, value: bytes | None) -> bytearray:
    batch: bytearray = wire.records.encode_batch([wire.records.Record(0, NOW, key, value)], is_control=True)
    return batch


@pytest.mark.parametrize("kind", [2, 3, 4, 32767, -1])
def test_another_type_of_control_record_is_no_fault(wire: Wire, kind: int) -> None:
    assert wire.control.decode_marker(control_batch(wire, struct.pack(">hh", 0, kind), b"whatever")) is None


def test_a_later_version_may_have_more_fields(wire: Wire) -> None:
    batch = control_batch(wire, struct.pack(">hhi", 1, 1, 9), struct.pack(">hii", 1, 5, 9))

    assert wire.control.decode_marker(batch) == wire.control.Marker(True, 5)


def test_a_marker_that_compaction_emptied_is_none(wire: Wire) -> None:
    marker = wire.control.encode_marker(wire.control.Marker(True, 1), producer_id=1, producer_epoch=0, timestamp_ms=NOW)

    assert wire.control.decode_marker(wire.filtering.retain(marker, [False], 1000)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 6),
        (b"\0\0\0", b"\0" * 6),
        (struct.pack(">hh", -1, 0), b"\0" * 6),
        (struct.pack(">hh", 0, 1), b"\0" * 5),
        (struct.pack(">hh", 0, 0), None),
    ],
)
def test_a_marker_that_is_cut_short_is_corrupt(wire: Wire, key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        wire.control.decode_marker(control_batch(wire, key, value))
