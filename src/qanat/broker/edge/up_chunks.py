"""Committed batches of an outbox, made ready for an upload: as a producer would send them, one after another.

Rule 1: markers and aborted records stay; their offsets count as passed.
Rule 2: a batch goes as it lies, unless a part of it is gone already, or only its child could have stamped it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from qanat.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from qanat.wire.batch_header import BatchHeader, read_header, write_header
from qanat.wire.compression import Codec
from qanat.wire.records import Record, decode_records, encode_batch, set_producer
from qanat.wire.staged import BATCHES_MAX, hide
from qanat.wire.up_messages import upload_name
from qanat.wire.visible_batches import Aborted, visible_batches

_INFLATED_BYTES_MAX = 64 * 1024 * 1024
_NO_EPOCH = -1


class UpChunk(Struct):
    """Records `[first, end)` of an outbox, as an upload."""

    first: int
    end: int
    records: int
    content: bytearray
    name: str
    position: int = 0
    """Bytes of it that the parent has."""


def chunk_of(views: Sequence[memoryview], aborted: Sequence[Aborted], first: int, bytes_max: int) -> UpChunk | None:
    """The batches from `first` on, one at least; None where there is none."""
    content, records, batches, end = bytearray(), 0, 0, first
    for batch, header, is_visible in visible_batches(views, aborted):
        if header.next_offset <= first:
            continue
        if is_visible:
            ready = _ready(batch, header, first)
            if batches and (len(content) + len(ready) > bytes_max or batches == BATCHES_MAX):
                break
            content += ready
            records += read_header(ready).record_count
            batches += 1
        end = header.next_offset
    return None if end == first else UpChunk(first, end, records, content, upload_name(content))


def _ready(batch: memoryview, header: BatchHeader, first: int) -> bytearray:
    is_whole = header.base_offset >= first and header.record_count == header.last_offset_delta + 1
    if is_whole and not header.is_log_append_time:
        ready = bytearray(batch)
        set_producer(ready, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, is_transactional=False)
    else:
        ready = _rewritten(batch, header, first)
    write_header(ready, 0, read_header(ready)._replace(base_offset=0, leader_epoch=_NO_EPOCH))
    hide(ready)
    return ready


def _rewritten(batch: memoryview, header: BatchHeader, first: int) -> bytearray:
    kept = [one for one in decode_records(batch, _INFLATED_BYTES_MAX) if one.offset >= first]
    rows = [Record(at, one.timestamp, one.key, one.value, one.headers) for at, one in enumerate(kept)]
    return encode_batch(rows, codec=Codec(header.codec))
