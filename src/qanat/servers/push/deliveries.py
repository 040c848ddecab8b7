"""Records of the log as DATA frames: single records (form 0, or JSON for the plain dialect) or closed batches (form 1).

A delivery stops where the credit or the socket has no more room, in the middle of a batch as well. The records of such
a batch are kept decoded until the rest of them has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from qanat.edge.push_session import NO_LIMIT, Place, PushSession
from qanat.model.errors import CorruptBatchError, QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.push.shared_payloads import RECORDS_MAX, PayloadKey, Payloads, SharedPayloads
from qanat.wire.batch_header import BatchHeader
from qanat.wire.push.data import batches_front, encode_fields
from qanat.wire.push.frames import FrameType, frame_header
from qanat.wire.push.plain import plain_record
from qanat.wire.record_reader import split_records
from qanat.wire.records import open_batch, wrapped
from qanat.wire.visible_batches import Aborted, visible_batches

if TYPE_CHECKING:
    from qanat.servers.push.fresh_batches import FreshBatch
    from qanat.wire.record_reader import RawRecord

UNREADABLE = "unreadable"
"""Why a connection ends whose next records are damaged, or inflate too far."""
INFLATED_BYTES_MAX = 64 * 1024 * 1024
FRAME_BYTES = 256 * 1024
"""Batches of one frame of form 1 together, unless a single one is larger."""
_DATA = int(FrameType.DATA)

Chunk = bytes | memoryview


class Deliveries:
    """Makes the DATA frames of one partition for one subscriber."""

    def __init__(
        self,
        session: PushSession,
        at: TopicPartition,
        topic_index: int,
        shared: SharedPayloads,
        *,
        is_plain: bool,
        has_batches: bool,
    ) -> None:
        self._session = session
        self._at = at
        self._topic = topic_index
        self._is_plain = is_plain
        self._has_batches = has_batches
        self._shared = shared
        self._opened: tuple[int, list[RawRecord]] | None = None
        """The records of the batch at an offset, while some of them have not left."""

    def frames(self, views: Sequence[memoryview], aborted: Sequence[Aborted], now_ms: int, room: int) -> list[Chunk]:
        """Frames of what was read, as far as credit and room go; the session notes what leaves. Raises
        `CorruptBatchError` where the first batch cannot be read."""
        chunks: list[Chunk] = []
        left = room
        if self._has_batches:
            return self._closed(views, aborted, now_ms)
        for batch, header, is_visible in visible_batches(views, aborted):
            cursor = self._session.cursors[self._at]
            place = cursor.place
            if header.next_offset <= place.offset:
                continue
            if header.base_offset >= cursor.limit:
                self._session.skip(self._at, Place(cursor.limit, place.epoch))
                break
            if not is_visible:
                self._session.skip(self._at, Place(header.next_offset, header.leader_epoch))
                continue
            try:
                payloads = self._payloads(batch, header)
            except QanatError as fault:
                if chunks:
                    break  # What is before it leaves first.
                raise CorruptBatchError(str(fault)) from None  # Or it inflates too far.
            size = self._open(payloads, header, chunks, now_ms, left)
            left -= size
            if self._session.cursors[self._at].place.offset < header.next_offset or left <= 0:
                break
        return chunks

    def _open(
        self, payloads: Iterable[tuple[int, bytes]], header: BatchHeader, chunks: list[Chunk], now_ms: int, room: int
    ) -> int:
        """Add the frames of a batch's records; returns their size."""
        session, at, epoch = self._session, self._at, header.leader_epoch
        begun = session.cursors[at].place.offset
        total = 0
        fits, sent = session.credit.fits, session.sent
        for offset, payload in payloads:
            if offset < begun:
                continue
            size = len(payload)
            if not fits(1, size) or total > room:
                return total
            frame_id = sent(at, Place(offset + 1, epoch), 1, size, now_ms)
            chunks.append(frame_header(_DATA, frame_id, size) + payload)
            total += size
        self._opened = None
        if session.cursors[at].place.offset < header.next_offset:
            session.skip(at, Place(header.next_offset, epoch))
        return total

    def _payloads(self, batch: memoryview, header: BatchHeader) -> Iterable[tuple[int, bytes]]:
        """Offset and payload of each record of a batch."""
        if header.record_count > RECORDS_MAX:
            return self._encoded(self._records(batch, header), header)
        key = PayloadKey(
            self._at, -1 if self._is_plain else self._topic, header.base_offset, header.leader_epoch, header.crc
        )
        payloads: Payloads | None = self._shared.get(key)
        if payloads is None:
            payloads = list(self._encoded(self._records(batch, header), header))
            self._shared.put(key, payloads)
        return payloads

    def _encoded(self, records: list[RawRecord], header: BatchHeader) -> Iterator[tuple[int, bytes]]:
        at, base, epoch, base_timestamp = self._at, header.base_offset, header.leader_epoch, header.base_timestamp
        topic, partition = self._topic, at.partition
        fixed = header.max_timestamp if header.is_log_append_time else None
        begun = self._session.cursors[at].place.offset if header.record_count > RECORDS_MAX else base
        for _, delta, offset_delta, key, value, headers in records:
            offset = base + offset_delta
            if offset < begun:
                continue
            timestamp = wrapped(base_timestamp + delta) if fixed is None else fixed
            if self._is_plain:
                yield offset, plain_record(at.topic, at.partition, offset, timestamp, key, value)
            else:
                yield offset, encode_fields(topic, partition, epoch, offset, timestamp, key, value, headers)

    def _records(self, batch: memoryview, header: BatchHeader) -> list[RawRecord]:
        if self._opened is not None and self._opened[0] == header.base_offset:
            return self._opened[1]
        verified, payload = open_batch(batch, INFLATED_BYTES_MAX)
        records = split_records(payload, verified.record_count, verified.last_offset_delta)
        self._opened = (header.base_offset, records)
        return records

    def _closed(self, views: Sequence[memoryview], aborted: Sequence[Aborted], now_ms: int) -> list[Chunk]:
        """Frames of whole batches, which are not opened."""
        chunks: list[Chunk] = []
        run: list[memoryview] = []
        size = records = 0
        end: Place | None = None
        is_at_limit = False
        session, at = self._session, self._at
        for batch, header, is_visible in visible_batches(views, aborted):
            if header.next_offset <= session.cursors[at].place.offset:
                continue
            if header.base_offset >= session.cursors[at].limit:
                is_at_limit = True
                break
            fits = self._fits_beside(records + header.record_count, size + len(batch)) if run else False
            if run and (not is_visible or not fits or size + len(batch) > FRAME_BYTES):
                assert end is not None
                chunks += self._frame(run, size, records, end, now_ms)
                run, size, records, end = [], 0, 0, None
            if not run:
                fits = session.credit.fits(header.record_count, len(batch))
            if not is_visible:
                session.skip(at, Place(header.next_offset, header.leader_epoch))
                continue
            if not fits:
                break
            run.append(batch)
            size, records = size + len(batch), records + header.record_count
            end = Place(header.next_offset, header.leader_epoch)
        if run:
            assert end is not None
            chunks += self._frame(run, size, records, end, now_ms)
        cursor = session.cursors[at]
        if is_at_limit and cursor.place.offset < cursor.limit:
            session.skip(at, Place(cursor.limit, cursor.place.epoch))
        return chunks

    def fresh_frame(self, batch: FreshBatch, now_ms: int) -> list[Chunk] | None:
        """The frame of a batch that begins at the cursor; None where it takes the longer way."""
        session, cursor = self._session, self._session.cursors[self._at]
        size, records = len(batch.view), batch.next_offset - batch.base_offset
        if not self._has_batches or cursor.limit != NO_LIMIT or not session.credit.fits(records, size):
            return None
        front = batches_front(self._topic, self._at.partition, batch.leader_epoch, batch.base_offset, batch.next_offset)
        frame_id = session.sent(self._at, Place(batch.next_offset, batch.leader_epoch), records, size, now_ms)
        return [frame_header(_DATA, frame_id, len(front) + size) + front, batch.view]

    def forget(self) -> None:
        """The partition is read from another place: a batch that has left in part is opened again."""
        self._opened = None

    def _fits_beside(self, records: int, size: int) -> bool:
        """Whether another batch fits into a frame that has one: only a single batch may be larger than the credit."""
        credit = self._session.credit
        return records <= credit.left_records and size <= credit.left_bytes

    def _frame(self, run: list[memoryview], size: int, records: int, end: Place, now_ms: int) -> list[Chunk]:
        first = self._session.cursors[self._at].place.offset
        front = batches_front(self._topic, self._at.partition, end.epoch, first, end.offset)
        frame_id = self._session.sent(self._at, end, max(records, 1), size, now_ms)
        return [frame_header(_DATA, frame_id, len(front) + size) + front, *run]
