"""The aborted index on disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import examples

from qanat.log.segments.aborted_index import ENTRY_SIZE, AbortedTransaction, decode_aborted, encode_aborted

numbers = st.integers(0, 2**63 - 1)


def test_an_entry_is_kafkas_bytes() -> None:
    assert encode_aborted([AbortedTransaction(7, 10, 20, 15)]) == bytes.fromhex(
        "0000"  # version
        "0000000000000007"  # producer id
        "000000000000000a"  # first offset
        "0000000000000014"  # last offset
        "000000000000000f"  # last stable offset
    )
    assert ENTRY_SIZE == 34


@examples
@given(st.lists(st.builds(AbortedTransaction, numbers, numbers, numbers, numbers), max_size=5))
def test_what_was_written_is_read(entries: list[AbortedTransaction]) -> None:
    assert decode_aborted(encode_aborted(entries)) == entries
    assert decode_aborted(memoryview(encode_aborted(entries))) == entries
