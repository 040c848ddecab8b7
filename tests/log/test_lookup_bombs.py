"""A small batch that inflates to very many headers is looked up by time on a worker, and no header becomes a value."""

from __future__ import annotations

from tests.memory import peak_bytes

from qanat.log.timestamp_lookup import TimestampedOffset, first_at_or_after
from qanat.wire.compression import Codec
from qanat.wire.records import Record, encode_batch

HEADERS = 200_000
LIMIT = 64 * 1024 * 1024


def test_a_record_of_very_many_headers_costs_its_inflated_size_and_little_more() -> None:
    crowded = Record(0, 5, None, b"", tuple([("", b"")] * HEADERS))
    batch = encode_batch([crowded, Record(1, 7, None, b"")], codec=Codec.ZSTD)
    limit = 40 * HEADERS

    assert first_at_or_after(batch, 6, 0, LIMIT) == TimestampedOffset(7, 1)
    peak = peak_bytes(lambda: first_at_or_after(batch, 6, 0, LIMIT), limit)
    assert peak < limit, "a tuple and two values for each header would be more than a hundred bytes"
