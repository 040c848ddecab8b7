"""Columns from batches and batches from columns, with pyarrow as the judge of every buffer."""

from __future__ import annotations

import itertools
from array import array
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from tests.wire.conftest import Wire
from tests.wire.samples import (
    CODECS,
    LIMIT,
    NOW,
    QUICK_CODECS,
    build,
    contents,
    plain,
    raw_record,
    varint,
    with_payload,
)

from qanat.model.errors import BatchTooLargeError, CorruptBatchError, InvalidRecordError
from qanat.wire.batch_header import check_batch
from qanat.wire.column_layout import BinaryColumn, Columns
from qanat.wire.compression import Codec


def wrapped(column: Any, kind: Any, rows: int) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def as_arrow(columns: Any) -> Any:
    """A record batch on our buffers, not a byte of them copied, and valid in every respect."""
    rows, headers = len(columns), len(columns.header_keys.offsets) - 1
    pairs = pa.StructArray.from_arrays(
        [wrapped(columns.header_keys, pa.utf8(), headers), wrapped(columns.header_values, pa.binary(), headers)],
        fields=[pa.field("key", pa.utf8(), nullable=False), pa.field("value", pa.binary())],
    )
    lists = pa.Array.from_buffers(
        pa.list_(pairs.type), rows, [None, pa.py_buffer(columns.header_offsets)], 0, children=[pairs]
    )
    batch = pa.record_batch(
        {
            "offset": pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)]),
            "timestamp": pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.timestamps)]),
            "key": wrapped(columns.keys, pa.binary(), rows),
            "value": wrapped(columns.values, pa.binary(), rows),
            "headers": lists,
        }
    )
    batch.validate(full=True)
    return batch


def as_rows(records: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for record in records
    ]


@pytest.mark.parametrize("codec", QUICK_CODECS)
@given(content=contents)
def test_columns_hold_what_the_records_hold(wire: Wire, codec: Codec, content: list[tuple[Any, ...]]) -> None:
    first = build(wire.records, content)
    second = build(wire.records, content[::-1], base_offset=2**40)
    batches = [wire.records.encode_batch(records, codec=codec) for records in (first, second)]

    columns = wire.columns.decode_columns(batches, limit_bytes=LIMIT)

    assert as_arrow(columns).to_pylist() == as_rows(first + second)


def test_no_batches_are_empty_columns(wire: Wire) -> None:
    assert as_arrow(wire.columns.decode_columns([], limit_bytes=LIMIT)).num_rows == 0


def test_only_the_offsets_asked_for_become_rows(wire: Wire) -> None:
    records = plain(wire.records, 20)
    batches = [wire.records.encode_batch(records[start : start + 5]) for start in (0, 5, 10, 15)]

    for first, end in itertools.product((0, 3, 5, 12, 25), (0, 4, 10, 18, 2**62)):
        columns = wire.columns.decode_columns(batches, limit_bytes=LIMIT, first_offset=first, end_offset=end)
        assert as_arrow(columns).to_pylist() == as_rows([r for r in records if first <= r.offset < end])


def test_control_batches_have_no_rows(wire: Wire) -> None:
    marker = wire.control.encode_marker(
        wire.control.Marker(True, 1), producer_id=1, producer_epoch=0, timestamp_ms=NOW, base_offset=5
    )
    records = plain(wire.records)

    columns = wire.columns.decode_columns([wire.records.encode_batch(records), marker], limit_bytes=LIMIT)

    assert as_arrow(columns).to_pylist() == as_rows(records)


def test_log_append_time_and_delete_horizon_are_understood(wire: Wire) -> None:
    records = plain(wire.records)
    stamped = wire.records.encode_batch(records, log_append_time_ms=NOW + 99)
    horizon = wire.records.encode_batch(records, delete_horizon_ms=NOW + 1000)

    columns = wire.columns.decode_columns([stamped, horizon], limit_bytes=LIMIT)

    assert list(columns.timestamps) == [NOW + 99] * 5 + [record.timestamp for record in records]


def test_a_header_key_that_is_no_text_is_mended(wire: Wire) -> None:
    header = varint(1) + varint(3) + b"a\xffb" + varint(-1)
    payload = raw_record(b"\x00", varint(0), varint(0), varint(-1), varint(-1), header)
    batches = [with_payload(payload, 1), wire.records.encode_batch(plain(wire.records))]

    rows = as_arrow(wire.columns.decode_columns(batches, limit_bytes=LIMIT)).to_pylist()

    assert rows[0]["headers"] == [{"key": "a\ufffdb", "value": None}]
    assert rows[1:] == as_rows(plain(wire.records))
    assert wire.records.decode_records(batches[0], LIMIT)[0].headers == (("a\ufffdb", None),)


@pytest.mark.parametrize("codec", QUICK_CODECS)
@given(content=contents)
def test_columns_become_batches_again(wire: Wire, codec: Codec, content: list[tuple[Any, ...]]) -> None:
    dense = [(*rest, 1) for *rest, _distance in content]
    records = build(wire.records, dense)
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)

    (batch, count), *more = wire.columns.encode_columns(columns, codec=codec)

    assert (count, more) == (len(records), [])
    assert batch == wire.records.encode_batch(records, codec=codec)
    check_batch(batch)


def test_batches_are_cut_at_the_size_asked_for(wire: Wire) -> None:
    records = [wire.records.Record(i, NOW, b"k", bytes(100 + 10_000 * (i == 50))) for i in range(100)]
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)
    fields = wire.records.BatchFields(producer_id=1, producer_epoch=0, base_sequence=10)

    batches = list(wire.columns.encode_columns(columns, batch_bytes=1000, fields=fields))

    assert all(len(batch) <= 1061 for batch, count in batches if count > 1)
    assert [count for batch, count in batches if len(batch) > 1061] == [1]
    read = [record.value for batch, _ in batches for record in wire.records.decode_records(batch, LIMIT)]
    assert read == [record.value for record in records]
    sequences = [check_batch(batch).base_sequence for batch, _ in batches]
    assert sequences == [10 + sum(count for _, count in batches[:i]) for i in range(len(batches))]


def test_the_checksum_follows_a_producer_that_is_put_in(wire: Wire) -> None:
    encoded = wire.records.encode_batch(plain(wire.records, 20))
    columns = wire.columns.decode_columns([encoded], limit_bytes=LIMIT)

    for codec in CODECS:
        ((batch, _),) = wire.columns.encode_columns(columns, codec=codec)
        for is_transactional in (False, True):
            wire.records.set_producer(batch, 7, 1, 100, is_transactional=is_transactional)
            header = check_batch(batch)
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 100)
            assert header.is_transactional == is_transactional
        batch[-1] ^= 1
        wire.records.set_producer(batch, 8, 1, 100, is_transactional=True)
        with pytest.raises(CorruptBatchError):
            check_batch(batch)


def test_arrows_own_buffers_can_be_encoded(wire: Wire) -> None:
    records = plain(wire.records, 20)
    batch = as_arrow(wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT))
    foreign = pa.RecordBatch.from_pylist(batch.to_pylist(), schema=batch.schema)
    columns = from_arrow(foreign)

    assert sum(count for _, count in wire.columns.encode_columns(columns)) == 20
    ((encoded, _),) = wire.columns.encode_columns(columns, first_row=3, end_row=15)

    read = wire.records.decode_records(encoded, LIMIT)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in read] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records[3:15]
    ]


def from_arrow(batch: Any) -> Columns:
    def binary(values: Any) -> Any:
        validity, offsets, data = values.buffers()
        return BinaryColumn(None if validity is None else memoryview(validity), memoryview(offsets), memoryview(data))

    headers = batch.column("headers")
    return Columns(
        offsets=array("q"),
        timestamps=memoryview(batch.column("timestamp").buffers()[1])[: 8 * batch.num_rows],
        keys=binary(batch.column("key")),
        values=binary(batch.column("value")),
        header_offsets=memoryview(headers.buffers()[1]),
        header_keys=binary(headers.values.field("key")),
        header_values=binary(headers.values.field("value")),
    )


def lie(columns: Any, what: str) -> None:
    match what:
        case "offsets fall":
            columns.values.offsets[2] = 0
        case "offsets beyond the data":
            columns.values.offsets[len(columns)] = 10**6
        case "offsets negative":
            columns.keys.offsets[0] = -1
        case "validity too short":
            columns.keys.validity = bytearray()
        case "offsets too few":
            columns.keys.offsets = columns.keys.offsets[:3]
        case "headers beyond their columns":
            columns.header_offsets[len(columns)] = 100
        case "headers fall":
            columns.header_offsets[3] = 0
        case "header rows too few":
            columns.header_offsets = columns.header_offsets[:2]
        case "header rows negative":
            columns.header_offsets[0] = -5


@pytest.mark.parametrize(
    "what",
    [
        "offsets fall",
        "offsets beyond the data",
        "offsets negative",
        "validity too short",
        "offsets too few",
        "headers beyond their columns",
        "headers fall",
        "header rows too few",
        "header rows negative",
    ],
)
def test_columns_that_lie_are_refused(wire: Wire, what: str) -> None:
    records = [wire.records.Record(i, NOW, b"key", b"value", (("h", b"v"),)) for i in range(9)]
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)
    lie(columns, what)

    with pytest.raises(InvalidRecordError):
        list(wire.columns.encode_columns(columns))


def test_rows_that_do_not_exist_are_a_bug(wire: Wire) -> None:
    columns = wire.columns.decode_columns([wire.records.encode_batch(plain(wire.records))], limit_bytes=LIMIT)
    for first, end in ((-1, 3), (2, 9)):
        with pytest.raises(AssertionError):
            list(wire.columns.encode_columns(columns, first_row=first, end_row=end))


def test_columns_outgrow_whatever_was_expected_of_them(wire: Wire) -> None:
    """Rows, nulls, headers and data of every column, past several doublings and from one batch to the next."""
    headers = tuple((f"h{i}", b"x" * i if i % 3 else None) for i in range(40))
    records = [
        wire.records.Record(i, NOW + i, b"k" * (i % 300) if i % 5 else None, b"v" * (i * 7 % 9000), headers[: i % 41])
        for i in range(1500)
    ]
    batches = [wire.records.encode_batch(records[i : i + 100], codec=Codec.ZSTD) for i in range(0, 1500, 100)]

    columns = wire.columns.decode_columns(iter(batches), limit_bytes=LIMIT)

    assert as_arrow(columns).to_pylist() == as_rows(records)


def test_a_column_without_nulls_has_no_validity(wire: Wire) -> None:
    records = [wire.records.Record(i, NOW, b"key", None if i == 70 else b"value") for i in range(100)]
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)

    assert (columns.keys.validity, columns.keys.null_count) == (None, 0)
    assert (len(columns.values.validity), columns.values.null_count) == (13, 1)
    assert as_arrow(columns).to_pylist() == as_rows(records)


def test_buffers_hold_no_more_than_twice_what_they_show(wire: Wire) -> None:
    for size in (0, 1, 10, 1000, 100_000):
        records = [wire.records.Record(i, NOW, b"k" * size, None, (("h", b"x" * size),)) for i in range(20)]
        batch = wire.records.encode_batch(records)
        columns = wire.columns.decode_columns([batch, batch], limit_bytes=LIMIT)
        ((encoded, _count),) = wire.columns.encode_columns(columns, batch_bytes=LIMIT)
        binary = (columns.keys, columns.values, columns.header_keys, columns.header_values)
        for buffer in (encoded, *(column.data for column in binary)):
            assert buffer.__alloc__() <= 2 * len(buffer) + 2


@pytest.mark.parametrize(
    "record",
    [
        {"key": b"x" * 101},
        {"value": b"x" * 101},
        {"headers": (("x" * 101, None),)},
        {"headers": (("h", b"x" * 101),)},
        {"headers": (("", None),) * 101},
    ],
    ids=["key", "value", "header key", "header value", "headers"],
)
def test_more_than_arrow_can_address_is_refused(wire: Wire, record: dict[str, Any]) -> None:
    """As with 2 GiB, here with a column that ends at 100."""
    payload = wire.records.encode_batch(
        [wire.records.Record(**{"offset": 0, "timestamp": 0, "key": None, "value": None} | record)]
    )[61:]
    wire.column_reader.ColumnFiller(1000, 101).fill(payload, 1, 0, 0, 10, 0, NOW, False)

    filler = wire.column_reader.ColumnFiller(1000, 100)
    for _ in range(2):
        with pytest.raises(BatchTooLargeError, match="ask for fewer batches"):
            filler.fill(payload, 1, 0, 0, 10, 0, NOW, False)


def test_more_rows_than_arrow_can_address_are_refused(wire: Wire) -> None:
    payload = wire.records.encode_batch([wire.records.Record(i, 0, b"", b"") for i in range(101)])[61:]
    filler = wire.column_reader.ColumnFiller(0, 100)
    with pytest.raises(BatchTooLargeError, match="ask for fewer batches"):
        filler.fill(payload, 101, 100, 0, 101, 0, NOW, False)


def test_a_batch_larger_than_expected_is_written_whole(wire: Wire) -> None:
    records = [wire.records.Record(i, NOW, b"k", bytes([i]) * 100_000) for i in range(50)]
    columns = wire.columns.decode_columns([wire.records.encode_batch(records)], limit_bytes=LIMIT)

    ((batch, count),) = wire.columns.encode_columns(columns, batch_bytes=LIMIT)

    assert count == 50
    assert batch == wire.records.encode_batch(records)
