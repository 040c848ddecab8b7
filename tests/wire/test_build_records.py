"""Records built in one native walk are the ones that the other decoder finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qanat.wire.batch_header import HEADER_SIZE, read_header
from qanat.wire.record_reader import build_records
from qanat.wire.records import Record, decode_records, encode_batch

BYTES = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(0, 2**40), BYTES, BYTES, HEADERS), min_size=1, max_size=20)


@given(RECORDS, st.integers(0, 20), st.booleans())
def test_both_decoders_agree(
    rows: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    first: int,
    is_append_time: bool,
) -> None:
    records = [Record(100 + index, *row) for index, row in enumerate(rows)]
    batch = bytes(
        encode_batch(records, base_offset=100, leader_epoch=3, log_append_time_ms=77 if is_append_time else None)
    )
    header = read_header(batch)
    built = build_records(
        batch[HEADER_SIZE:],
        header.record_count,
        header.last_offset_delta,
        first,
        header.base_offset,
        header.max_timestamp if is_append_time else header.base_timestamp,
        is_append_time,
        lambda *fields: fields,
        "t",
        5,
        2,
        header.leader_epoch,
    )

    assert built == [
        ("t", 5, one.offset, one.timestamp, one.key, one.value, one.headers, 2, 3)
        for one in decode_records(batch, 1 << 20)
        if one.offset >= 100 + first
    ]
