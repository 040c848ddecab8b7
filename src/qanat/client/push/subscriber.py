"""The core of a push consumer: it connects, subscribes, resumes, and acknowledges what is processed.

After a lost connection it subscribes again: in `log` and `queue` the group knows where to continue, in `all` this
process does, by offset and leader epoch of the last record that was handed out.

Rule 1: frames are acknowledged in order, each when its last record is processed.
Rule 2: RESET and READY have their place between the records: whoever takes records from here is given them as events,
        and answers each when what it asks for is durable.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.client.push.settings import PushConsumerSettings
from qanat.client.records import Record
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.connection.push.link import DisconnectedError, PushLink
from qanat.connection.push.receiving import Positions, ResumePoint
from qanat.connection.push.refreshing import Refresh, RefreshEvent, RefreshFrames, Repeated
from qanat.model.errors import MalformedMessageError, QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import split_batches
from qanat.wire.push.control import (
    VERSION,
    Ack,
    Credit,
    Mode,
    Ready,
    Reset,
    Start,
    Subscribe,
    Verdict,
    decode_control,
    encode_control,
)
from qanat.wire.push.data import PushedBatches, PushedRecord, decode_data
from qanat.wire.push.frames import FrameType, PushFrame
from qanat.wire.record_reader import build_records
from qanat.wire.records import open_batch

if TYPE_CHECKING:
    Delivered = Record[bytes | None, bytes | None]

_INFLATED_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Voided:
    """A RESET without a refresh: what was received from an offset on is void."""

    reset: Reset
    frame_id: int


class Subscriber:
    """One subscription; belongs to one event loop."""

    def __init__(
        self,
        settings: PushConsumerSettings,
        topics: Iterable[str],
        positions: dict[TopicPartition, ResumePoint] | None = None,
    ) -> None:
        self._settings = settings
        self._topics = list(topics)
        self._mode = Mode(settings.mode) if settings.mode else (Mode.LOG if settings.group_id else Mode.ALL)
        self._member = str(uuid.uuid4())
        """The group knows it again after a broker was lost, and gives its partitions back at once."""
        self._servers = list(settings.bootstrap_servers)
        """The one to connect to next is first."""
        self.positions = Positions(positions)
        self._link: PushLink | None = None
        self._ready: deque[tuple[Delivered, int, bool] | RefreshEvent | Voided] = deque()
        """Records that have arrived, with their frame and whether they are its last; and events between them."""
        self._event: RefreshEvent | Voided | None = None
        """The event that the user has now."""
        self._refreshes = RefreshFrames()
        self._open: list[tuple[Delivered, int, bool]] = []
        """The records that the user has now."""
        self.resets: list[Reset] = []
        """What the broker declared void, oldest first; the user may look and clear."""
        self.fault = ""
        """Why there is no connection, as far as it is known."""

    async def next(self) -> Delivered | RefreshEvent | Voided:
        """The next record, the one before it is processed; or an event, until it is answered."""
        found = await self.next_batch(1)
        return found[0] if isinstance(found, list) else found

    async def next_batch(self, max_records: int) -> list[Delivered] | RefreshEvent | Voided:
        """The records that have arrived, one at least, those before them are processed; or an event between them."""
        if self._event is not None:
            return self._event
        self.done()
        pause_s = self._settings.retry_backoff_ms / 1000
        while not self._ready:
            try:
                link = self._link
                if link is None:
                    link = await self._connected()
                elif not link.is_open:
                    raise link.fault  # It ended while the user was at work, or with its first frames.
                self._take(await link.receive(), link)
                pause_s = self._settings.retry_backoff_ms / 1000
            except (UnreachableError, OutOfTimeError) as fault:
                self._lose()
                self.fault = str(fault)
                self._servers.append(self._servers.pop(0))
                if isinstance(fault, DisconnectedError) and fault.is_final:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._settings.retry_backoff_max_ms / 1000)
            except QanatError as fault:
                # What cannot be read is not passed over: the same comes again, or another broker has it in good order.
                self._lose()
                self.fault = str(fault)
                raise
        if isinstance(event := self._ready[0], RefreshEvent | Voided):
            self._event = event
            self._ready.popleft()
            return event
        self._open = self._records(max_records)
        records = [record for record, _, _ in self._open]
        if self._mode is Mode.ALL:
            self._advance(records)
        return records

    def _records(self, most: int) -> list[tuple[Delivered, int, bool]]:
        """The records before the next event, so many at most."""
        found: list[tuple[Delivered, int, bool]] = []
        while self._ready and len(found) < most:
            one = self._ready[0]
            if isinstance(one, RefreshEvent | Voided):
                break
            found.append(one)
            self._ready.popleft()
        return found

    def _advance(self, records: list[Delivered]) -> None:
        """Note the last record of each run of one partition: the ones before it say nothing more."""
        last = records[0]
        for record in records:
            if record.partition != last.partition or record.topic != last.topic:
                self.positions.advance(last.topic_partition, last.offset, last.leader_epoch)
            last = record
        self.positions.advance(last.topic_partition, last.offset, last.leader_epoch)

    @property
    def is_connected(self) -> bool:
        """Whether there is a subscription now."""
        return self._link is not None and self._link.is_open

    def answer(self, event: RefreshEvent | Voided, reached: Mapping[TopicPartition, ResumePoint] | None = None) -> None:
        """What an event asks for is done, and durable."""
        self._event = None
        payload = b""
        if isinstance(event, RefreshEvent):
            payload = self._refreshes.answered(event, reached)
        else:
            self._void(event.reset)
        if self._link is not None:
            self._link.send(FrameType.ACK, payload, event.frame_id)

    def fail(self, event: RefreshEvent | Voided) -> None:
        """What an event asks for could not be done: the broker repeats RESET and READY of refreshes."""
        if isinstance(event, RefreshEvent):
            self._event = None
            self._refreshes.failed(event)

    def refresh_of(self, at: TopicPartition) -> Refresh | None:
        """The refresh that records of a partition belong to now; None where they belong to what is served."""
        return self._refreshes.under_way.get(at)

    def _void(self, reset: Reset) -> None:
        self.resets.append(reset)
        at = TopicPartition(reset.topic, reset.partition)
        self.positions.reset(at, reset.offset, reset.epoch, reset.topic_id)

    @property
    def has_ready(self) -> bool:
        """Whether `next` has a record without waiting."""
        return bool(self._ready)

    def done(self, verdict: Verdict | None = None) -> None:
        """The records that the user has are processed."""
        given, self._open = self._open, []
        if self._link is None:
            return
        frames = [frame_id for _, frame_id, is_last in given if is_last and frame_id]
        payload = b"" if verdict is None else encode_control(Ack(verdict=verdict))
        # Outside of queues an ACK answers all frames before it as well.
        for frame_id in frames if self._mode is Mode.QUEUE else frames[-1:]:
            self._link.send(FrameType.ACK, payload, frame_id)

    def renew(self) -> None:
        """Keep the locks of the records that the user has."""
        if self._link is not None:
            for _, frame_id, _ in self._open:
                self._link.send(FrameType.ACK, encode_control(Ack(verdict=Verdict.RENEW)), frame_id)

    async def close(self) -> None:
        """Acknowledge nothing more, and say goodbye."""
        if self._link is not None and self._link.is_open:
            self._link.send(FrameType.DISCONNECT, b"", 0)
        self._lose()

    # Connections

    async def _connected(self) -> PushLink:
        settings = self._settings
        deadline = Deadline.after(settings.request_timeout_ms / 1000)
        link = await PushLink.open(self._servers, deadline, settings.security, settings.client_id)
        wanted = Subscribe(
            VERSION,
            client=settings.client_id,
            topics=self._topics,
            group=settings.group_id,
            member=self._member if self._mode is Mode.LOG else "",
            mode=self._mode,
            start=Start(settings.auto_offset_reset),
            positions=self.positions.rows(is_all=self._mode is Mode.ALL),
            credit=Credit(settings.credit_records, settings.credit_bytes),
            forms=[] if self._mode is Mode.QUEUE else [1],
        )
        try:
            answer = await link.ask(wanted, deadline)
        except BaseException:
            link.close()
            raise
        self.positions.connected(answer.topic_ids)
        self._link = link
        self.fault = ""
        return link

    def _lose(self) -> None:
        """The connection is gone: what has arrived and was not handed out comes again."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._ready.clear()
        self._open = [(record, 0, False) for record, _, _ in self._open]
        self._event = None
        self._refreshes = RefreshFrames()

    # Frames

    def _take(self, frame: PushFrame, link: PushLink) -> None:
        if frame.type == FrameType.DATA:
            data = decode_data(frame.payload)
            if data.topic >= len(self._topics):
                raise MalformedMessageError(f"DATA names topic {data.topic}, there are {len(self._topics)}")
            found = self._one(data) if isinstance(data, PushedRecord) else self._many(data)
            if found:
                at = found[0].topic_partition
                self.positions.has(at)
                # A frame has records of one partition, in order: where the first is new, all are.
                if self._mode is Mode.ALL and not self.positions.is_new(at, found[0].offset):
                    found = [one for one in found if self.positions.is_new(at, one.offset)]
            for number, record in enumerate(found, 1):
                self._ready.append((record, frame.id, number == len(found)))
            if not found:
                link.send(FrameType.ACK, b"", frame.id)
        elif frame.type == FrameType.RESET:
            reset = decode_control(Reset, frame.payload)
            if reset.ranges:
                self._refresh(self._refreshes.arrived(frame.id, reset), link)
            else:
                self._ready.append(Voided(reset, frame.id))
        elif frame.type == FrameType.READY:
            self._refresh(self._refreshes.arrived(frame.id, decode_control(Ready, frame.payload)), link)

    def _refresh(self, event: RefreshEvent | Repeated | None, link: PushLink) -> None:
        if isinstance(event, Repeated):
            link.send(FrameType.ACK, event.payload, event.frame_id)
        elif event is not None:
            self._ready.append(event)

    def _one(self, data: PushedRecord) -> list[Delivered]:
        headers = tuple((name.decode("utf-8", "replace"), content) for name, content in data.headers)
        topic = self._topics[data.topic]
        return [
            Record(
                topic,
                data.partition,
                data.offset,
                data.timestamp,
                data.key,
                data.value,
                headers,
                leader_epoch=data.leader_epoch,
            )
        ]

    def _many(self, data: PushedBatches) -> list[Delivered]:
        found: list[Delivered] = []
        for batch in split_batches(data.batches):
            header, payload = open_batch(batch, _INFLATED_BYTES_MAX)
            is_fixed = header.is_log_append_time
            found += build_records(
                payload,
                header.record_count,
                header.last_offset_delta,
                data.first_offset - header.base_offset,
                header.base_offset,
                header.max_timestamp if is_fixed else header.base_timestamp,
                is_fixed,
                Record,
                self._topics[data.topic],
                data.partition,
                0,
                header.leader_epoch,
            )
        return found
