"""Files of batches that are named instead of sent: what is said of them, and how batches lie in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import Writer, batch, examples

from qanat.model.errors import CorruptBatchError, InvalidRecordError, QanatError
from qanat.wire.batch_header import CONTROL, TRANSACTIONAL, batch_crc, check_batch, read_header, write_header
from qanat.wire.records import set_producer
from qanat.wire.staged import hide, is_staged, read_staged, show, staged_batch
from qanat.wire.staged_upload import read_upload

NAME = "batch-7/0123456789abcdef0123456789abcdef"


def test_what_is_sent_says_whose_file_it_is_and_how_much_is_in_it() -> None:
    sent = staged_batch(NAME, 5_000_000)
    assert set_producer(sent, 42, 3, 17, is_transactional=True) == 5_000_000

    found = read_staged(sent)

    assert is_staged(sent)
    assert found.name == NAME
    assert (found.header.producer_id, found.header.producer_epoch, found.header.base_sequence) == (42, 3, 17)
    assert (found.header.record_count, found.header.last_offset_delta) == (5_000_000, 4_999_999)
    assert found.header.is_transactional


def test_a_batch_is_no_name_and_a_name_is_no_batch() -> None:
    assert not is_staged(batch(1))
    assert not is_staged(staged_batch(NAME, 1)[:61])
    with pytest.raises(InvalidRecordError, match="unknown message format: magic is 113"):
        check_batch(staged_batch(NAME, 1))


_DIGITS = "0123456789abcdef0123456789abcdef"
STRAY_NAMES = ["", "x", _DIGITS, f"../{_DIGITS}", f"a/b/{_DIGITS}", f"a/../{_DIGITS}", f"/{NAME}", f"é{NAME}"]
STRAY_NAMES += [f"{NAME}0", f"{NAME}\n", f"{NAME[:-1]}/", f"{NAME[:-1]}\0", f"{'x' * 101}/{_DIGITS}"]


@pytest.mark.parametrize("name", STRAY_NAMES)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecordError, match="no name of a staged file"):
        read_staged(staged_batch(name, 1) if name else _resealed(staged_batch("x", 1)[:61]))


def _resealed(sent: bytearray) -> bytearray:
    header = read_header(sent)._replace(batch_length=len(sent) - 12)
    write_header(sent, 0, header)
    write_header(sent, 0, header._replace(crc=batch_crc(sent)))
    return sent


def test_counts_and_attributes_that_make_no_sense_are_refused() -> None:
    for change in (
        *({"record_count": 0}, {"last_offset_delta": 7}, {"record_count": -1}, {"attributes": CONTROL}),
        *({"attributes": TRANSACTIONAL}, {"producer_id": 7}, {"producer_id": 7, "producer_epoch": 1}),
        *({"base_sequence": 3}, {"producer_id": 7, "base_sequence": 3}),
    ):
        sent = staged_batch(NAME, 1)
        write_header(sent, 0, read_header(sent)._replace(**change))
        with pytest.raises(InvalidRecordError):
            read_staged(_resealed(sent))


@examples
@given(st.data())
def test_spoiled_bytes_are_refused(data: st.DataObject) -> None:
    sent = staged_batch(NAME, 3)
    at = data.draw(st.integers(16, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))

    if at != 16:
        with pytest.raises(QanatError):
            read_staged(sent)
    elif is_staged(sent):
        with pytest.raises(QanatError):
            read_upload(sent)


def test_a_hidden_batch_is_none_until_it_is_shown() -> None:
    for whole in (batch(3), batch(3, writer=Writer(7, 1, 5), is_transactional=True)):
        hidden = bytearray(whole)
        hide(hidden)
        with pytest.raises(CorruptBatchError, match="checksum"):
            check_batch(hidden)

        show(hidden)
        assert hidden == whole
        show(hidden)
        assert hidden == whole


def test_no_part_of_a_header_written_anew_makes_a_hidden_batch_one() -> None:
    """Of the 61 bytes, power may fail after any: the rest is as it was in the file, and so is what was there before."""
    hidden = bytearray(batch(3))
    hide(hidden)
    for is_transactional in (False, True):
        taken = bytearray(batch(3))
        set_producer(taken, 7, 1, 100, is_transactional=is_transactional)
        header = read_header(taken)._replace(base_offset=500, leader_epoch=4)
        write_header(taken, 0, header)
        check_batch(taken)

        for cut in range(61):
            for torn in (taken[:cut] + hidden[cut:], hidden[:cut] + taken[cut:]):
                # Offset and epoch are under no checksum, but before the first offset is no place in a log.
                if torn != taken and read_header(torn).base_offset >= 0:
                    with pytest.raises(CorruptBatchError):
                        check_batch(torn)
