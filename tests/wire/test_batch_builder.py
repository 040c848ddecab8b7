from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.wire.conftest import Wire

fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.binary(max_size=10), fields), max_size=3).map(tuple)
timestamps = st.integers(0, 2**63 - 1)
Rows = list[tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]]


@given(st.lists(st.tuples(timestamps, fields, fields, headers), min_size=1, max_size=30))
def test_a_batch_that_grows_has_the_bytes_of_one_that_is_written_at_once(wire: Wire, rows: Rows) -> None:
    builder = wire.batch_builder.BatchBuilder(1 << 30, 61)
    assert [builder.append(*row) for row in rows] == list(range(len(rows)))
    first = rows[0][0]
    raw = [(0, row[0] - first, number, *row[1:]) for number, row in enumerate(rows)]
    assert builder.finish()[61:] == wire.record_writer.encode_records(raw, 61)[61:]
    assert (builder.base_timestamp, builder.max_timestamp) == (first, max(row[0] for row in rows))
    assert builder.count == len(rows)


def test_a_record_beyond_the_limit_is_left_out_unless_it_is_the_first(wire: Wire) -> None:
    builder = wire.batch_builder.BatchBuilder(200, 61)
    assert builder.append(5, None, bytes(500), ()) == 0
    assert builder.append(5, None, b"", ()) == -1
    other = wire.batch_builder.BatchBuilder(200, 61)
    assert [other.append(5, None, bytes(50), ()) for _ in range(4)] == [0, 1, -1, -1]
    size = other.size
    assert len(other.finish()) == size <= 200
    assert other.append(5, None, b"", ()) == -1
