"""The header on its own: what a broker writes into it, and the checksum that stays valid."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import crc32c as fast
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.conftest import Wire
from tests.wire.samples import plain

from qanat.model.errors import CorruptBatchError
from qanat.wire import crc
from qanat.wire.batch_header import (
    batch_size_at,
    check_batch,
    check_stored_batch,
    patch,
    placed,
    read_header,
    split_batches,
)


@given(base_offset=st.integers(0, 2**62), leader_epoch=st.integers(-1, 2**31 - 1))
def test_a_broker_places_a_batch_without_touching_its_checksum(
    compiled: Wire, base_offset: int, leader_epoch: int
) -> None:
    batch = compiled.records.encode_batch(plain(compiled.records))

    moved = placed(check_batch(batch), base_offset, leader_epoch) + batch[16:]
    patch(batch, base_offset, leader_epoch)

    assert moved == batch
    header = check_stored_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)
    assert (header.last_offset, header.next_offset) == (base_offset + 4, base_offset + 5)


def test_sizes_count_the_whole_batch(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))

    assert batch_size_at(b"before" + batch, 6) == read_header(batch).size == len(batch)


def test_batches_in_a_row_are_told_apart_until_one_is_cut_short(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records))

    assert [bytes(view) for view in split_batches(batch * 3)] == [bytes(batch)] * 3
    assert list(split_batches(b"")) == []
    for end in (len(batch) + 1, len(batch) + 60, 2 * len(batch) - 1):
        with pytest.raises(CorruptBatchError):
            list(split_batches((batch * 2)[:end]))


def test_the_last_sequence_number_wraps(wire: Wire) -> None:
    batch = wire.records.encode_batch(plain(wire.records), base_sequence=2**31 - 2)

    assert read_header(batch).last_sequence == 2


def test_the_other_checksum_library_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_fast(name: str, *rest: Any) -> Any:
        if name == "crc32c":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.delitem(sys.modules, "crc32c")
    monkeypatch.setattr(builtins, "__import__", without_fast)
    copying = crc._choose()

    for data in (b"", b"123456789", bytes(1000)):
        assert copying(memoryview(data)) == fast.crc32c(data)
    assert copying(b"123456789") == 0xE3069283
