"""Compaction's view of a batch: keys, and what is left when records go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.conftest import Wire
from tests.wire.samples import LIMIT, NOW, QUICK_CODECS, build, contents, plain

from qanat.model.errors import InvalidRecordError
from qanat.wire.batch_header import HEADER_SIZE, check_stored_batch, read_header
from qanat.wire.compression import Codec


def test_keys_come_with_offsets_and_tombstones(wire: Wire) -> None:
    records = plain(wire.records)

    keys = wire.filtering.read_keys(wire.records.encode_batch(records, codec=Codec.ZSTD), LIMIT)

    assert keys == [(r.offset, r.key, r.value is None) for r in records]


@pytest.mark.parametrize("codec", QUICK_CODECS)
@given(content=contents, data=st.data())
def test_retained_records_are_the_ones_decided_on(
    wire: Wire, codec: Codec, content: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    records = build(wire.records, content, base_offset=100)
    keep = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    horizon = data.draw(st.none() | st.integers(0, 2**45))
    before = wire.records.encode_batch(records, codec=codec, base_offset=100, producer_id=9, base_sequence=4)

    after = wire.filtering.retain(before, keep, LIMIT, delete_horizon_ms=horizon)

    kept = [record for record, is_kept in zip(records, keep, strict=True) if is_kept]
    assert wire.records.decode_records(after, LIMIT) == kept
    old, new = check_stored_batch(before), check_stored_batch(after)
    assert (new.base_offset, new.last_offset, new.producer_id, new.base_sequence) == (
        old.base_offset,
        old.last_offset,
        9,
        4,
    )
    if kept:
        assert new.delete_horizon_ms == horizon
        assert new.max_timestamp == max(record.timestamp for record in kept)
        assert new.codec == codec


def test_keeping_everything_changes_no_byte(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records), leader_epoch=3)

    assert wire.filtering.retain(batch, b"\1" * 5, LIMIT) == batch


def test_keeping_nothing_leaves_the_header(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records), codec=Codec.GZIP, is_transactional=True)

    emptied = wire.filtering.retain(batch, [False] * 5, LIMIT, delete_horizon_ms=NOW)

    header = check_stored_batch(emptied)
    assert len(emptied) == HEADER_SIZE
    assert (header.record_count, header.last_offset_delta, header.max_timestamp) == (0, 4, NOW + 4)
    assert (header.base_timestamp, header.delete_horizon_ms, header.is_transactional) == (-1, None, True)
    assert wire.filtering.read_keys(emptied, LIMIT) == []
    assert wire.filtering.retain(emptied, [], LIMIT) == emptied


def test_a_horizon_that_is_set_stays_set(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))
    once = wire.filtering.retain(batch, [True] * 5, LIMIT, delete_horizon_ms=NOW + 1000)

    twice = wire.filtering.retain(once, [True, False, True, True, True], LIMIT)

    assert read_header(twice).delete_horizon_ms == NOW + 1000
    assert [record.timestamp for record in wire.records.decode_records(twice, LIMIT)] == [
        NOW,
        NOW + 2,
        NOW + 3,
        NOW + 4,
    ]


def test_log_append_time_outlives_compaction(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records), log_append_time_ms=NOW + 99)

    for horizon in (None, NOW + 1000):
        after = wire.filtering.retain(batch, [True, False] * 2 + [True], LIMIT, delete_horizon_ms=horizon)
        assert {record.timestamp for record in wire.records.decode_records(after, LIMIT)} == {NOW + 99}


def test_a_decision_for_every_record_is_needed(wire: Wire) -> None:
    with pytest.raises(AssertionError):
        wire.filtering.retain(wire.records.encode_batch(plain(wire.records)), [True] * 4, LIMIT)


def test_a_compacted_topic_needs_keys(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))

    wire.filtering.check_records(batch, LIMIT)
    with pytest.raises(InvalidRecordError, match="1 of 5 records"):
        wire.filtering.check_records(batch, LIMIT, keys_required=True)
    wire.filtering.check_records(
        wire.records.encode_batch([wire.records.Record(0, NOW, b"", None)]), LIMIT, keys_required=True
    )
