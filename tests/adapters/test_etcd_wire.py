"""Protocol Buffers by hand: what is written is read again, and what is no message is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_wire import MalformedAnswerError, as_bytes, as_int, blob, fields, message, number

numbers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(1, 2000), numbers.filter(bool) | st.binary(min_size=1, max_size=300))))
def test_fields_are_read_as_they_were_written(written: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(number(at, value) if isinstance(value, int) else blob(at, value) for at, value in written)
    read = [(at, as_int(value) if isinstance(value, int) else value) for at, value in fields(data)]
    assert read == written


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (
        messages.read_range,
        messages.read_txn,
        messages.read_watch,
        messages.read_lease,
        messages.read_status,
    ):
        try:
            read(data)
        except MalformedAnswerError:
            continue


def test_defaults_are_not_written_and_empty_messages_are() -> None:
    assert number(1, 0) == blob(2, b"") == b""
    assert message(3, b"") == bytes((3 << 3 | 2, 0))


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x08", b"\x08" + b"\xff" * 11, b"\x0b", b"\x0d\x00", b"\x09\x00"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        list(fields(data))


def test_unknown_fields_are_skipped() -> None:
    later = number(900, 7) + blob(901, b"x") + b"\xfd\x07" + bytes(4) + b"\xf9\x07" + bytes(8)
    entry = blob(1, b"k") + number(2, 3) + number(3, 4) + blob(5, b"v") + number(6, 5)
    answer = messages.read_range(later + message(1, number(3, 9) + later) + message(2, entry + later) + number(3, 1))
    assert answer.entries == [messages.KeyValue(b"k", b"v", 3, 4, 5)]
    assert (answer.header.revision, answer.has_more) == (9, True)


def test_a_number_where_bytes_belong_is_refused() -> None:
    with pytest.raises(MalformedAnswerError):
        as_bytes(1)
    with pytest.raises(MalformedAnswerError):
        as_int(b"1")


def test_a_compare_with_zero_says_what_it_compares() -> None:
    assert dict(fields(messages.compare_create(b"k", 0)))[5] == 0
    assert dict(fields(messages.compare_mod(b"k", 0)))[6] == 0
