"""Chunks of staged files: what is sent is read back, and nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.errors import CorruptBatchError, InvalidRecordError, QanatError
from qanat.wire.batch_header import HEADER_SIZE, batch_crc, read_header, write_header
from qanat.wire.staged import FILE_BYTES_MAX, is_staged, staged_batch
from qanat.wire.staged_upload import DROPPED, is_upload, read_upload, upload_batch

NAME = "query-batch-0/0123456789abcdef0123456789abcdef"


def signed(batch: bytearray) -> bytearray:
    """The batch with the checksum that belongs to it now."""
    write_header(batch, 0, read_header(batch)._replace(crc=batch_crc(batch)))
    return batch


@given(st.lists(st.binary(max_size=50), max_size=3), st.integers(0, FILE_BYTES_MAX - 200))
def test_a_chunk_is_read_as_it_was_sent(pieces: list[bytes], position: int) -> None:
    sent = upload_batch(NAME, position, pieces)
    assert is_staged(sent)
    assert is_upload(sent)
    found = read_upload(sent)
    assert (found.name, found.position, bytes(found.data)) == (NAME, position, b"".join(pieces))
    assert found.end == position + len(b"".join(pieces))


def test_a_name_is_no_chunk() -> None:
    assert not is_upload(staged_batch(NAME, 1))
    assert not is_upload(upload_batch(NAME, 0)[:HEADER_SIZE])


def test_a_file_can_be_dropped() -> None:
    assert read_upload(upload_batch(NAME, DROPPED)).position == DROPPED


@pytest.mark.parametrize(
    "name",
    [
        "../" + "0" * 32,
        "a/../" + "0" * 32,
        "/" + "0" * 32,
        "a/" + "0" * 31,
        "a/" + "0" * 33,
        "a/" + "G" * 32,
        "a/b/" + "0" * 32,
        "a.b/" + "0" * 32,
        "a" * 101 + "/" + "0" * 32,
        "a/" + "0" * 32 + "\n",
        "\u00e4/" + "0" * 32,
        "",
    ],
)
def test_a_name_that_might_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecordError, match="no name of a staged file"):
        read_upload(upload_batch(name, 0, [b"x"]))


@pytest.mark.parametrize(
    ("position", "data"), [(-2, b"x"), (-(2**63), b""), (DROPPED, b"x"), (FILE_BYTES_MAX, b"x"), (2**63 - 1, b"")]
)
def test_a_place_outside_of_a_file_is_refused(position: int, data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_upload(upload_batch(NAME, position, [data]))


def test_a_file_may_be_as_large_as_allowed() -> None:
    assert read_upload(upload_batch(NAME, FILE_BYTES_MAX - 1, [b"x"])).end == FILE_BYTES_MAX


@pytest.mark.parametrize("length", [0xFFFF, 47, 60])
def test_a_name_that_is_said_to_be_longer_than_the_chunk_is_refused(length: int) -> None:
    sent = upload_batch(NAME, 0, [b"x"])
    sent[HEADER_SIZE : HEADER_SIZE + 2] = length.to_bytes(2)
    with pytest.raises(InvalidRecordError):
        read_upload(signed(sent))


def test_a_chunk_that_changed_on_its_way_is_refused() -> None:
    sent = upload_batch(NAME, 0, [b"some rows"])
    sent[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        read_upload(sent)
    with pytest.raises(CorruptBatchError):
        read_upload(upload_batch(NAME, 0, [b"some rows"]) + b"more")


@pytest.mark.parametrize("changes", [{"producer_id": 1}, {"record_count": 1}, {"attributes": 16}])
def test_a_chunk_is_of_no_producer_and_in_no_transaction(changes: dict[str, int]) -> None:
    sent = upload_batch(NAME, 0, [b"x"])
    write_header(sent, 0, read_header(sent)._replace(**changes))
    with pytest.raises(InvalidRecordError, match="no producer"):
        read_upload(signed(sent))


@given(st.binary(min_size=1, max_size=200))
def test_any_content_is_a_chunk_or_refused(content: bytes) -> None:
    sent = upload_batch(NAME, 0)[:HEADER_SIZE] + content
    header = read_header(sent)
    write_header(sent, 0, header._replace(batch_length=len(sent) - 12))
    try:
        found = read_upload(signed(sent))
    except QanatError:
        return
    assert len(found.name) > 33
