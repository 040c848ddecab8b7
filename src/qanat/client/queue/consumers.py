"""`AsyncQueueConsumer` and `QueueConsumer`: records of a queue, locked for this consumer until it acknowledges them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from qanat.client.errors import ClosedError, SerializationError
from qanat.client.io_loop import IoLoop
from qanat.client.queue.member import LockLost, QueueMember
from qanat.client.queue.settings import QueueSettings
from qanat.client.queue.verdicts import FencingToken, Verdict
from qanat.client.records import Record
from qanat.client.settings import Servers, read_settings
from qanat.model.errors import InvalidSettingError
from qanat.model.ids import TopicPartition

_FLUSH_S = 30.0
AnyRecord = Record[Any, Any]


class UndecodableRecordError(SerializationError):
    """A record's key or value cannot be decoded; `record` has its bytes, and is still locked for this consumer."""

    def __init__(self, message: str, record: AnyRecord) -> None:
        super().__init__(message)
        self.record = record


class _Decoding:
    """Bytes become keys and values where the user polls; a bad record does not cost the others."""

    def __init__(self, key: object, value: object) -> None:
        self._key = _decoder(key)
        self._value = _decoder(value)
        self._left: list[AnyRecord] = []
        """Records behind one that could not be decoded."""

    @property
    def has_left(self) -> bool:
        return bool(self._left)

    def take_left(self, count: int) -> list[AnyRecord]:
        found, self._left = self._left[:count], self._left[count:]
        return found

    def decoded(self, records: list[AnyRecord]) -> list[AnyRecord]:
        """Decode in place, up to the first bad record; raises where that is the first one."""
        if self._key is None and self._value is None:
            return records
        for index, record in enumerate(records):
            try:
                key = record.key if self._key is None else self._key.decode(record.topic, record.key, record.headers)
                if self._value is not None:
                    record.value = self._value.decode(record.topic, record.value, record.headers)
                record.key = key
            except SerializationError as fault:
                if index:
                    self._left = records[index:] + self._left
                    return records[:index]
                self._left = records[1:] + self._left
                raise UndecodableRecordError(f"{fault}; offset {record.offset}", record) from fault
        return records


def _decoder(spec: object) -> Any:
    """A deserializer, or what one is named by; None leaves the bytes."""
    if spec is None or (hasattr(spec, "decode") and not isinstance(spec, type | str | bytes)):
        return spec
    from qanat.client.serializers.lookup import deserializer  # type: ignore[import-not-found,unused-ignore]

    return deserializer(spec)


class AsyncQueueConsumer:
    """A consumer of a queue (share group).

    Records are locked for this consumer until it acknowledges them. With `lock="auto"` the lock is renewed while it
    works, for at most `timeout_s`. Where a lock is lost all the same, `on_lock_lost(partition, offset, reason)` is
    called on its event loop, so that the work can be cancelled.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        *topics: str,
        group: str | None = None,
        key: object = None,
        value: object = None,
        lock: Literal["auto", "manual"] = "auto",
        on_lock_lost: LockLost | None = None,
        io: IoLoop | None = None,
        **settings: object,
    ) -> None:
        given = {**settings, "lock": lock, **({} if group is None else {"group_id": group})}
        if not topics:
            raise InvalidSettingError("a topic is missing: AsyncQueueConsumer(servers, 'jobs', group='workers')")
        self.settings = read_settings(QueueSettings, bootstrap_servers, given)
        self._topics = topics
        self._decoding = _Decoding(key, value)
        self._on_lock_lost = on_lock_lost
        self._given_io = io
        self._io: IoLoop | None = io
        self._member: QueueMember | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> AsyncQueueConsumer:
        """Connect and join; raises where the cluster cannot be reached or a topic is missing."""
        self._loop = asyncio.get_running_loop()
        self._io = self._given_io or IoLoop.start("qanat-queue")
        try:
            self._member = await self._io.run(self._joined(self._io))
        except BaseException:
            await self.close()
            raise
        return self

    async def _joined(self, io: IoLoop) -> QueueMember:
        member = QueueMember(self.settings, self._topics, io, self._report_lost)
        try:
            await member.start()
        except BaseException:
            await member.close()
            raise
        return member

    def _report_lost(self, partition: TopicPartition, offset: int, reason: str) -> None:
        if self._on_lock_lost is None:
            return
        if self._loop is None or (self._io is not None and self._io.is_here):
            self._on_lock_lost(partition, offset, reason)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_lock_lost, partition, offset, reason)

    async def __aenter__(self) -> AsyncQueueConsumer:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def poll(self, max_records: int | None = None, timeout_s: float = 1.0) -> list[AnyRecord]:
        """Records that are locked for this consumer from now on; none where there are none in time."""
        if self._member is None and not self._is_closed:
            await self.start()
        member, io = self._used()
        count = self.settings.max_poll_records if max_records is None else max_records
        found = self._take(member, count)
        if not found:
            await io.run(member.wait_for_records(timeout_s))
            found = self._take(member, count)
        return self._decoding.decoded(found)

    def _take(self, member: QueueMember, count: int) -> list[AnyRecord]:
        if not self._decoding.has_left:
            return member.take(count)
        left = self._decoding.take_left(count)
        member.hand_again(left)
        return left

    async def __aiter__(self) -> AsyncIterator[AnyRecord]:
        while not self._is_closed:
            found = await self.poll()
            for record in self._used()[0].one_by_one(found):
                yield record

    async def acknowledge(self, record: AnyRecord, verdict: Verdict = Verdict.ACCEPT) -> None:
        """Say what became of a record. It is sent with others, soon; `flush` waits for the broker.

        Raises `LockLostError` where the lock is lost: another consumer may have the record.
        """
        member, io = self._member, self._io
        if member is None or io is None or self._is_closed or not io.is_usable:
            member = self._used()[0]
        member.say(record, verdict)

    def fencing_token(self, record: AnyRecord) -> FencingToken:
        """A token that grows with each delivery of the record, for stores that refuse an older one."""
        return self._used()[0].fencing_token(record)

    async def flush(self, timeout_s: float = _FLUSH_S) -> None:
        """Wait until brokers have all acknowledgements; raises `LockLostError` where some came too late."""
        member, io = self._used()
        await io.run(member.flush(timeout_s))

    async def close(self) -> None:
        """Send acknowledgements, release unfinished records, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        io, member = self._io, self._member
        try:
            if io is not None and member is not None and not io.is_closed:
                await io.run(member.close())
        finally:
            if io is not None and self._given_io is None:
                await asyncio.to_thread(io.close)

    def _used(self) -> tuple[QueueMember, IoLoop]:
        if self._is_closed:
            raise ClosedError("the queue consumer is closed: make another one")
        if self._member is None or self._io is None:
            raise ClosedError(
                "the queue consumer has not begun: it does so with `with`, `async with`, or the first poll"
            )
        self._io.check()
        return self._member, self._io


class QueueConsumer:
    """`AsyncQueueConsumer` for threads: `with QueueConsumer(servers, "jobs", group="workers") as queue`.

    `on_lock_lost` is called on the client's own thread, and must be quick.
    """

    def __init__(self, bootstrap_servers: Servers, *topics: str, group: str | None = None, **settings: Any) -> None:
        self._inner = AsyncQueueConsumer(bootstrap_servers, *topics, group=group, **settings)
        self._io: IoLoop | None = None

    def start(self) -> QueueConsumer:
        """Connect and join."""
        inner = self._inner
        self._io = inner._io = IoLoop.start("qanat-queue")
        try:
            inner._member = self._io.submit(inner._joined(self._io)).result()
        except BaseException:
            self.close()
            raise
        return self

    def __enter__(self) -> QueueConsumer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def poll(self, max_records: int | None = None, timeout_s: float = 1.0) -> list[AnyRecord]:
        """Records that are locked for this consumer from now on; none where there are none in time."""
        inner = self._inner
        if inner._member is None and not inner._is_closed:
            self.start()
        member, io = inner._used()
        count = inner.settings.max_poll_records if max_records is None else max_records
        found = inner._take(member, count)
        if not found:
            io.submit(member.wait_for_records(timeout_s)).result()
            found = inner._take(member, count)
        return inner._decoding.decoded(found)

    def __iter__(self) -> Iterator[AnyRecord]:
        while not self._inner._is_closed:
            found = self.poll()
            yield from self._inner._used()[0].one_by_one(found)

    def acknowledge(self, record: AnyRecord, verdict: Verdict = Verdict.ACCEPT) -> None:
        """Say what became of a record; raises `LockLostError` where its lock is lost."""
        inner = self._inner
        member, io = inner._member, inner._io
        if member is None or io is None or inner._is_closed or not io.is_usable:
            member = inner._used()[0]
        member.say(record, verdict)

    def fencing_token(self, record: AnyRecord) -> FencingToken:
        """A token that grows with each delivery of the record, for stores that refuse an older one."""
        return self._inner.fencing_token(record)

    def flush(self, timeout_s: float = _FLUSH_S) -> None:
        """Wait until brokers have all acknowledgements; raises `LockLostError` where some came too late."""
        member, io = self._inner._used()
        io.submit(member.flush(timeout_s)).result()

    def close(self) -> None:
        """Send acknowledgements, release unfinished records, and leave the group."""
        inner = self._inner
        if inner._is_closed:
            return
        inner._is_closed = True
        io = inner._io
        try:
            if io is not None and inner._member is not None:
                io.submit(inner._member.close()).result()
        finally:
            if io is not None:
                io.close()
