"""Records to batches and back, judged by round trips and by two foreign implementations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.wire.conftest import Wire
from tests.wire.judges import JUDGES, Judge
from tests.wire.samples import CODECS, LIMIT, NOW, QUICK_CODECS, build, contents, plain

from qanat.model.errors import InvalidRecordError
from qanat.wire.batch_header import HEADER_SIZE, batch_crc, check_batch, read_header
from qanat.wire.compression import Codec

JUDGEMENTS = [pytest.param(judge, codec, id=f"{judge.name}-{codec.name}") for judge in JUDGES for codec in CODECS]


@pytest.mark.parametrize("codec", QUICK_CODECS)
@given(content=contents)
def test_what_is_encoded_comes_back(wire: Wire, codec: Codec, content: list[tuple[Any, ...]]) -> None:
    records = build(wire.records, content, base_offset=1000)

    batch = wire.records.encode_batch(records, codec=codec, base_offset=1000)

    assert wire.records.decode_records(batch, LIMIT) == records
    assert read_header(batch).crc == batch_crc(batch)


@given(content=contents)
def test_both_forms_write_the_same_bytes(compiled: Wire, interpreted: Wire, content: list[tuple[Any, ...]]) -> None:
    batches = [form.records.encode_batch(build(form.records, content)) for form in (compiled, interpreted)]

    assert batches[0] == batches[1]


def test_the_header_says_what_was_asked_for(wire: Wire) -> None:
    batch = wire.records.encode_batch(
        plain(wire.records),
        codec=Codec.LZ4,
        leader_epoch=7,
        producer_id=1234,
        producer_epoch=5,
        base_sequence=99,
        is_transactional=True,
    )

    header = check_batch(batch)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1234, 5, 99)
    assert (header.codec, header.is_transactional, header.is_control) == (Codec.LZ4, True, False)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 4)
    assert (header.record_count, header.last_offset_delta) == (5, 4)


@pytest.mark.parametrize(("judge", "codec"), JUDGEMENTS)
def test_a_foreign_reader_reads_what_we_write(wire: Wire, judge: Judge, codec: Codec) -> None:
    records = plain(wire.records, 50)

    batch = judge.reader(bytes(wire.records.encode_batch(records, codec=codec, producer_id=7, producer_epoch=1)))

    assert batch.validate_crc()
    assert batch.producer_id == 7
    read = [(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers))) for r in batch]
    assert read == [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


@pytest.mark.parametrize(("judge", "codec"), JUDGEMENTS)
def test_what_a_foreign_writer_writes_is_read(wire: Wire, judge: Judge, codec: Codec) -> None:
    records = plain(wire.records, 50)

    builder = judge.builder(2, int(codec), False, -1, -1, -1, 1_000_000)
    for record in records:
        headers = [(key, value) for key, value in record.headers]
        assert builder.append(record.offset, record.timestamp, record.key, record.value, headers)

    batch = bytes(builder.build())
    check_batch(batch)
    assert wire.records.decode_records(batch, LIMIT) == records


def test_log_append_time_overrides_every_record(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records), codec=Codec.GZIP)

    stamped = wire.records.with_log_append_time(batch, NOW + 5000)

    assert stamped[HEADER_SIZE:] == batch[HEADER_SIZE:]
    assert check_batch(stamped).is_log_append_time
    assert {record.timestamp for record in wire.records.decode_records(stamped, LIMIT)} == {NOW + 5000}
    encoded = wire.records.encode_batch(plain(wire.records), codec=Codec.GZIP, log_append_time_ms=NOW + 5000)
    assert encoded == stamped


def test_timestamps_count_from_the_delete_horizon(wire: Wire) -> None:
    records = plain(wire.records)

    batch = wire.records.encode_batch(records, delete_horizon_ms=NOW + 86_400_000)

    assert check_batch(batch).delete_horizon_ms == NOW + 86_400_000
    assert check_batch(batch).max_timestamp == NOW + 4
    assert wire.records.decode_records(batch, LIMIT) == records


def test_a_batch_that_lost_its_ends_keeps_its_extent(wire: Wire) -> None:
    records = [wire.records.Record(12, NOW, b"a", b"1"), wire.records.Record(17, NOW, b"b", b"2")]

    batch = wire.records.encode_batch(records, base_offset=10, last_offset_delta=9)

    assert (read_header(batch).base_offset, read_header(batch).last_offset, read_header(batch).record_count) == (
        10,
        19,
        2,
    )
    assert wire.records.decode_records(batch, LIMIT) == records


def test_a_batch_without_records_is_a_header(wire: Wire) -> None:
    batch = wire.records.encode_batch([], codec=Codec.ZSTD, base_offset=10, last_offset_delta=9)

    assert len(batch) == HEADER_SIZE
    assert wire.records.decode_records(batch, LIMIT) == []
    assert wire.records.reencode(batch, Codec.GZIP, LIMIT) == batch


@pytest.mark.parametrize("before", CODECS)
@pytest.mark.parametrize("after", CODECS)
def test_reencoding_changes_the_compression_and_nothing_else(wire: Wire, before: Codec, after: Codec) -> None:
    batch = wire.records.encode_batch(plain(wire.records, 30), codec=before, producer_id=5, leader_epoch=3)

    changed = wire.records.reencode(batch, after, LIMIT)

    assert check_batch(changed).codec == after
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert check_batch(changed)._replace(**same) == check_batch(batch)._replace(**same)
    assert wire.records.decode_records(changed, LIMIT) == wire.records.decode_records(batch, LIMIT)


@pytest.mark.parametrize("offsets", [[5, 5], [5, 4], [0, 2**31]])
def test_offsets_that_do_not_fit_a_batch_are_refused(wire: Wire, offsets: list[int]) -> None:
    records = [wire.records.Record(offset, NOW, None, b"") for offset in offsets]
    with pytest.raises(InvalidRecordError):
        wire.records.encode_batch(records)


def test_a_header_key_that_is_no_text_is_refused(wire: Wire) -> None:
    with pytest.raises(InvalidRecordError, match="UTF-8"):
        wire.records.encode_batch([wire.records.Record(0, NOW, None, b"", (("\ud800", b""),))])


def test_sequence_numbers_run_on_and_wrap(wire: Wire) -> None:
    fields = wire.records.BatchFields(base_sequence=2**31 - 3)

    assert fields.after(2).base_sequence == 2**31 - 1
    assert fields.after(3).base_sequence == 0
    assert wire.records.BatchFields().after(3).base_sequence == -1


@settings(max_examples=20)
@given(content=contents)
def test_a_foreign_reader_agrees_on_anything(compiled: Wire, content: list[tuple[Any, ...]]) -> None:
    dense = [(abs(timestamp) % 2**40, *rest, 1) for timestamp, *rest, _distance in content]
    records = build(compiled.records, dense)

    batch = JUDGES[1].reader(bytes(compiled.records.encode_batch(records)))

    assert [(r.timestamp, r.key, r.value) for r in batch] == [(r.timestamp, r.key, r.value) for r in records]
