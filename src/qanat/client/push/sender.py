"""The core of a push producer: records are numbered per partition and repeated after a reconnection until answered.

Rule 1: records of a partition are sent in order, and repeated in the same order under the same numbers.
Rule 2: without idempotence a record whose connection broke fails: it may have been written, and would be doubled.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from qanat.client.errors import DeliveryError
from qanat.client.push.settings import PushProducerSettings
from qanat.client.records import Metadata
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.connection.push.link import DisconnectedError, PushLink
from qanat.model.error_codes import ErrorCode
from qanat.wire.key_hash import partition_of
from qanat.wire.push.control import VERSION, Ack, Heartbeat, Producer, decode_control, encode_control
from qanat.wire.push.data import NO_SEQUENCE, Headers, PushedRecord, encode_record
from qanat.wire.push.frames import FrameType


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
        self._link: PushLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(settings.max_unacknowledged)

    async def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, headers: Headers
    ) -> asyncio.Future[Metadata]:
        """Send a record; the future has its place once it is durable."""
        await self._room.acquire()
        try:
            link = await self._connected(topic)
        except BaseException:
            self._room.release()
            raise
        done: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda _: self._room.release())
        place = self._topics[topic]
        number = self._choose(topic, key) if partition is None else partition
        sequence = NO_SEQUENCE
        if self._identity is not None:
            sequence = self._sequences.get((place, number), 0)
            self._sequences[place, number] = (sequence + 1) & 0x7FFFFFFF
        record = PushedRecord(place, number, -1, sequence, time.time_ns() // 1_000_000, key, value, headers)
        sending = _Sending(topic, record, done, Deadline.after(self._settings.delivery_timeout_ms / 1000))
        self._unanswered[link.send(FrameType.DATA, encode_record(record))] = sending
        await link.wait_writable()
        return done

    def _choose(self, topic: str, key: bytes | None) -> int:
        if key is not None:
            return partition_of(key, self._counts[topic])
        self._turn += 1
        return self._turn % self._counts[topic]

    async def flush(self) -> None:
        """Wait until every record is answered."""
        waiting = [one.done for one in self._unanswered.values()]
        if waiting:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """Wait for the answers, then say goodbye."""
        await self.flush()
        if self._task is not None:
            self._task.cancel()
        if self._link is not None:
            self._link.send(FrameType.DISCONNECT, b"", 0)
            self._link.close()

    # Connections

    async def _connected(self, topic: str) -> PushLink:
        async with self._opening:
            if topic not in self._topics:
                self._topics[topic] = len(self._topics)
                await self._greet()
            while self._link is None or not self._link.is_open:
                await self._greet()
            return self._link

    async def _greet(self) -> None:
        """Connect where there is no connection, name all topics, and repeat what was not answered."""
        settings = self._settings
        deadline = Deadline.after(settings.request_timeout_ms / 1000)
        is_new = self._link is None or not self._link.is_open
        if self._link is None or is_new:
            link = await PushLink.open(settings.bootstrap_servers, deadline, settings.security, settings.client_id)
            self._link = link
        said = Heartbeat(VERSION, client=settings.client_id, topics=list(self._topics), producer=self._identity)
        if not is_new:
            self._counts = dict((await self._ask_beside(self._link, said, deadline)).partitions)
            return
        answer = await self._link.ask(said, deadline)
        self._counts = dict(answer.partitions)
        self._identity = answer.producer if self._identity is not None else None
        again, self._unanswered = list(self._unanswered.values()), {}
        for sending in again:
            self._unanswered[self._link.send(FrameType.DATA, encode_record(sending.record))] = sending
        self._task = asyncio.get_running_loop().create_task(self._receive(self._link))

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
                elif frame.type == FrameType.ACK and (sending := self._unanswered.pop(frame.id, None)) is not None:
                    self._answered(sending, decode_control(Ack, frame.payload))
        except (UnreachableError, OutOfTimeError) as fault:
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(fault)
            await self._lost(fault)

    def _answered(self, sending: _Sending, answer: Ack) -> None:
        if sending.done.done():
            return
        if answer.error:
            sending.done.set_exception(DeliveryError(f"{answer.message} ({answer.error})", _code(answer.error)))
        else:
            record = sending.record
            place = Metadata(sending.topic, answer.partition, answer.offset, record.timestamp)
            sending.done.set_result(place)

    async def _lost(self, fault: Exception) -> None:
        """The connection is gone: repeat, or say that the outcome is unknown."""
        is_final = isinstance(fault, DisconnectedError) and fault.is_final
        pause_s = self._settings.retry_backoff_ms / 1000
        while self._unanswered:
            for number, sending in list(self._unanswered.items()):
                if is_final or self._identity is None or sending.deadline.is_over:
                    del self._unanswered[number]
                    if not sending.done.done():
                        message = f"it is unknown whether it was written: {fault}"
                        lost = DeliveryError(message, ErrorCode.NETWORK_EXCEPTION, may_be_written=True)
                        sending.done.set_exception(lost)
            if not self._unanswered:
                return
            try:
                async with self._opening:
                    await self._greet()
                return
            except (UnreachableError, OutOfTimeError) as again:
                fault = again
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._settings.retry_backoff_max_ms / 1000)


def _code(error: str) -> ErrorCode:
    """Kafka's code of an error, in the spelling of the push protocol."""
    return ErrorCode.__members__.get(error.upper().replace("-", "_"), ErrorCode.UNKNOWN_SERVER_ERROR)
