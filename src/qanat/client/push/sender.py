"""The core of a push producer: records are numbered per partition and repeated after a reconnection until answered.

Rule 1: records of a partition are sent in order, and repeated in the same order under the same numbers.
Rule 2: without idempotence a record whose connection broke fails: it may have been written, and would be doubled.
Rule 3: a refused record leaves a hole in the numbers, and the broker refuses those behind it. Once all are answered,
        they are sent under a new identity; records that come meanwhile wait.
Rule 4: whatever ends a connection, every record gets its answer: it is sent again, or fails.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

from qanat.client.errors import DeliveryError
from qanat.client.push.settings import PushProducerSettings
from qanat.client.records import Metadata
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.connection.push.link import DisconnectedError, PushLink
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError, QanatError
from qanat.wire.key_hash import partition_of
from qanat.wire.push.control import VERSION, Ack, Heartbeat, Producer, decode_control, encode_control
from qanat.wire.push.data import NO_SEQUENCE, Headers, PushedRecord, encode_record
from qanat.wire.push.frames import FrameType

_OUT_OF_ORDER = "out-of-order-sequence-number"


@dataclass(slots=True, eq=False)
class _Sending:
    """A record without an answer."""

    topic: str
    record: PushedRecord
    done: asyncio.Future[Metadata]
    deadline: Deadline


class Sender:
    """One producer; belongs to one event loop."""

    def __init__(self, settings: PushProducerSettings) -> None:
        self._settings = settings
        self._topics: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._identity: Producer | None = Producer() if settings.enable_idempotence else None
        self._sequences: dict[tuple[int, int], int] = {}
        self._turn = 0
        self._unanswered: dict[int, _Sending] = {}
        self._asked: dict[int, asyncio.Future[Ack]] = {}
        self._behind: list[_Sending] = []
        """Records that were refused because of one before them."""
        self._is_broken = False
        """Whether a record was refused since the identity began."""
        self._whole = asyncio.Event()
        self._whole.set()
        self._mending: asyncio.Task[None] | None = None
        self._servers = list(settings.bootstrap_servers)
        """The one to connect to next is first."""
        self._link: PushLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._queued = 0
        """Sends that wait for a connection: later ones go behind them. Between two of them the lock looks free."""
        self._room = asyncio.Semaphore(settings.max_unacknowledged)

    async def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, headers: Headers
    ) -> asyncio.Future[Metadata]:
        """Send a record; the future has its place once it is durable."""
        await self._room.acquire()
        try:
            link = self._link
            is_ready = link is not None and link.is_open and topic in self._topics and self._whole.is_set()
            if link is None or not is_ready or self._opening.locked() or self._queued:
                self._queued += 1
                try:
                    link = await self._connected(topic)
                finally:
                    self._queued -= 1
        except BaseException:
            self._room.release()
            raise
        done: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        done.add_done_callback(self._settled)
        place = self._topics[topic]
        number = self._choose(topic, key) if partition is None else partition
        record = PushedRecord(place, number, -1, NO_SEQUENCE, time.time_ns() // 1_000_000, key, value, headers)
        deadline = Deadline.after(self._settings.delivery_timeout_ms / 1000)
        self._number_and_send(_Sending(topic, record, done, deadline), link)
        if not link.is_writable:
            with suppress(UnreachableError, OutOfTimeError):  # Then it is sent again, or fails: its future says so.
                await link.wait_writable()
        return done

    def _settled(self, _: asyncio.Future[Metadata]) -> None:
        self._room.release()

    def _number_and_send(self, sending: _Sending, link: PushLink) -> None:
        if self._identity is not None:
            place = sending.record.topic, sending.record.partition
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = (sequence + 1) & 0x7FFFFFFF
            sending.record = sending.record._replace(offset=sequence)
        self._unanswered[link.send(FrameType.DATA, encode_record(sending.record))] = sending

    def _choose(self, topic: str, key: bytes | None) -> int:
        if key is not None:
            return partition_of(key, self._counts[topic])
        self._turn += 1
        return self._turn % self._counts[topic]

    async def flush(self) -> None:
        """Wait until every record is answered."""
        waiting = [one.done for one in (*self._unanswered.values(), *self._behind)]
        if waiting:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """Wait for the answers, then say goodbye."""
        await self.flush()
        for task in (self._task, self._mending):
            if task is not None:
                task.cancel()
        if self._link is not None:
            self._link.send(FrameType.DISCONNECT, b"", 0)
            self._link.close()

    # Connections

    async def _connected(self, topic: str) -> PushLink:
        await self._whole.wait()
        async with self._opening:
            if topic not in self._topics:
                self._topics[topic] = len(self._topics)
                try:
                    await self._greet()
                except BaseException:
                    del self._topics[topic]  # It was the last: one that cannot be written to hinders no other.
                    raise
            if self._link is None or not self._link.is_open:
                await self._greet()
            return await self._lasting()

    async def _lasting(self) -> PushLink:
        """The connection; another one while it ends as soon as it has begun, unless that cannot get better."""
        while True:
            assert self._link is not None, "it was just made"
            if self._link.is_open:
                return self._link
            fault = self._link.fault
            if not isinstance(fault, UnreachableError) or (isinstance(fault, DisconnectedError) and fault.is_final):
                raise fault
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
            await self._greet()

    async def _greet(self) -> None:
        """Connect where there is no connection, name all topics, and repeat what was not answered."""
        settings = self._settings
        deadline = Deadline.after(settings.request_timeout_ms / 1000)
        said = Heartbeat(VERSION, client=settings.client_id, topics=list(self._topics), producer=self._identity)
        link = self._link
        is_new = link is None or not link.is_open
        if link is None or is_new:
            link, answer = await self._greet_anew(said, deadline)
        else:
            answer = await self._ask_beside(link, said, deadline)
        self._counts = dict(answer.partitions)
        self._identity = answer.producer if self._identity is not None else None
        if is_new:
            again, self._unanswered = list(self._unanswered.values()), {}
            for sending in again:
                self._unanswered[link.send(FrameType.DATA, encode_record(sending.record))] = sending
            self._task = asyncio.get_running_loop().create_task(self._receive(link))
        if not self._is_broken:
            behind, self._behind = self._behind, []
            for sending in behind:
                self._number_and_send(sending, link)

    async def _greet_anew(self, said: Heartbeat, deadline: Deadline) -> tuple[PushLink, Ack]:
        """Greet over a new connection; after one that fails, the next address is tried first."""
        settings = self._settings
        try:
            link = await PushLink.open(self._servers, deadline, settings.security, settings.client_id)
            try:
                answer = await link.ask(said, deadline)
            except BaseException:
                link.close()
                raise
        except (UnreachableError, OutOfTimeError):
            self._servers.append(self._servers.pop(0))
            raise
        self._link = link
        return link, answer

    async def _ask_beside(self, link: PushLink, said: Heartbeat, deadline: Deadline) -> Ack:
        """Ask while records are on their way: the task that reads the answers finds this one as well."""
        waiting: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        frame_id = link.send(FrameType.HEARTBEAT, encode_control(said))
        self._asked[frame_id] = waiting
        try:
            return await deadline.bound(waiting, f"an answer of {link.address}")
        finally:
            del self._asked[frame_id]

    async def _receive(self, link: PushLink) -> None:
        try:
            while True:
                frame = await link.receive()
                asked = self._asked.get(frame.id)
                if asked is not None and not asked.done():
                    asked.set_result(decode_control(Ack, frame.payload))
                elif frame.type == FrameType.ACK and frame.id in self._unanswered:
                    answer = decode_control(Ack, frame.payload)
                    self._answered(self._unanswered.pop(frame.id), answer)
        except QanatError as fault:
            link.fail(fault)
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(fault)
            await self._lost(fault)

    def _answered(self, sending: _Sending, answer: Ack) -> None:
        if answer.error and self._identity is not None:
            if self._is_broken and answer.error == _OUT_OF_ORDER:
                self._behind.append(sending)
            self._is_broken = True
            self._whole.clear()
        if not sending.done.done() and sending not in self._behind:
            self._settle(sending, answer)
        if self._is_broken and not self._unanswered:
            self._mending = asyncio.get_running_loop().create_task(self._mend())

    def _settle(self, sending: _Sending, answer: Ack) -> None:
        if answer.error:
            sending.done.set_exception(DeliveryError(f"{answer.message} ({answer.error})", _code(answer.error)))
        else:
            place = Metadata(sending.topic, answer.partition, answer.offset, sending.record.timestamp)
            sending.done.set_result(place)

    async def _mend(self) -> None:
        """Take a new identity, and send under it what was refused because of a record before it."""
        async with self._opening:
            self._identity, self._sequences, self._is_broken = Producer(), {}, False
            link = self._link
            try:
                await self._greet()
            except QanatError as fault:
                if link is not None and link.is_open:
                    link.fail(fault)  # What receives from it goes on from there.
                else:
                    await self._lost_within(fault)
            self._whole.set()

    # Lost connections

    async def _lost(self, fault: QanatError) -> None:
        async with self._opening:
            await self._lost_within(fault)

    async def _lost_within(self, fault: QanatError) -> None:
        """The connection is gone: repeat on another one, or say that the outcome is unknown."""
        pause_s = self._settings.retry_backoff_ms / 1000
        if self._link is not None and self._link.is_open:
            return  # There is another one already.
        # A broker that speaks what we cannot read would say the same over every connection.
        is_unreadable = isinstance(fault, MalformedMessageError)
        while self._unanswered or self._behind:
            self._give_up(fault, is_final=is_unreadable or self._identity is None)
            if not self._unanswered and not self._behind:
                return
            try:
                await self._greet()
                return
            except (UnreachableError, OutOfTimeError) as again:
                fault = again
                if isinstance(again, DisconnectedError) and again.is_final:
                    self._give_up(fault, is_final=True)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._settings.retry_backoff_max_ms / 1000)
            except QanatError as again:
                self._give_up(again, is_final=True)

    def _give_up(self, fault: QanatError, *, is_final: bool) -> None:
        """Records whose time is over, or all, fail."""
        for number, sending in list(self._unanswered.items()):
            if is_final or sending.deadline.is_over:
                del self._unanswered[number]
                if not sending.done.done():
                    message = f"it is unknown whether it was written: {fault}"
                    lost = DeliveryError(message, ErrorCode.NETWORK_EXCEPTION, may_be_written=True)
                    sending.done.set_exception(lost)
        for sending in list(self._behind):
            if is_final or sending.deadline.is_over:
                self._behind.remove(sending)
                if not sending.done.done():
                    sending.done.set_exception(DeliveryError(f"it was not written: {fault}", fault.code))


def _code(error: str) -> ErrorCode:
    """Kafka's code of an error, in the spelling of the push protocol."""
    return ErrorCode.__members__.get(error.upper().replace("-", "_"), ErrorCode.UNKNOWN_SERVER_ERROR)
