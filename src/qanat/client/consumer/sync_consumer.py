"""The blocking consumer: the same as `AsyncConsumer` for threads. Network traffic has a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from qanat.client.consumer.consumer_core import ConsumerCore, Hook
from qanat.client.consumer.consumer_state import ConsumerState
from qanat.client.consumer.offset_stores import OffsetStore
from qanat.client.consumer.reading import Reading, commit_values
from qanat.client.consumer.settings import ConsumerSettings, checked_topics
from qanat.client.errors import ClosedError
from qanat.client.io_loop import IoLoop
from qanat.client.records import Record
from qanat.client.settings import Servers, read_settings
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

T = TypeVar("T")
SyncHook = Callable[[list[TopicPartition]], object]
_ROWS = 100_000


class Consumer(ConsumerState):
    """Reads topics, as a member of a group or alone. One thread reads at a time.

    >>> with Consumer("localhost:9092", "orders", group="billing") as consumer:
    ...     for record in consumer:
    ...         bill(record.value)

    Hooks run in the thread that reads, inside its calls. A revocation waits for the records in hand.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        *topics: str,
        group: str | None = None,
        key: object = None,
        value: object = None,
        on_assigned: SyncHook | None = None,
        on_revoked: SyncHook | None = None,
        on_lost: SyncHook | None = None,
        offset_store: OffsetStore | None = None,
        **settings: object,
    ) -> None:
        """The same as for `AsyncConsumer`; it connects at the first call that reads, or in `with`."""
        given = settings if group is None else {**settings, "group_id": group}
        self._settings = read_settings(ConsumerSettings, bootstrap_servers, given)
        self._topics = checked_topics(topics)
        self._key, self._value = key, value
        self._hooks = (on_assigned, on_revoked, on_lost)
        self._store = offset_store
        self._io: IoLoop | None = None
        self._reading: Reading | None = None
        self._is_closed = False
        self._calls: deque[tuple[SyncHook, list[TopicPartition], Future[None]]] = deque()
        self._is_calling = False
        self._woken = threading.Event()

    def __enter__(self) -> Consumer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._reading is not None:
            self._reading.buffer.finish()
        self.close()

    def start(self) -> Consumer:
        """Connect and join."""
        if self._is_closed:
            raise ClosedError("this consumer is closed: make another one")
        if self._reading is None:
            io = self._io = IoLoop.start("qanat-consumer")
            core = ConsumerCore(self._settings, self._topics, io)
            core.store = self._store
            core.on_assigned, core.on_revoked, core.on_lost = (self._in_user_thread(hook) for hook in self._hooks)
            core.buffer.waker = self._woken.set
            reading = Reading(core, self._key, self._value)
            try:
                self._run(core.open())
            except BaseException:
                self._run(core.close())
                io.close()
                raise
            self._reading = reading
        return self

    def close(self) -> None:
        """Commit what is finished, leave the group, and end. Records in hand count as unfinished."""
        is_first, self._is_closed = not self._is_closed, True
        if self._reading is not None and is_first:
            assert self._io is not None
            try:
                self._run(self._reading.core.close())  # Its hooks may still commit.
            finally:
                self._reading = None
                self._io.close()

    def _in_user_thread(self, hook: SyncHook | None) -> Hook | None:
        if hook is None:
            return None

        async def call(partitions: list[TopicPartition]) -> None:
            import asyncio

            done: Future[None] = Future()
            self._calls.append((hook, partitions, done))
            self._woken.set()
            await asyncio.wrap_future(done)

        return call

    def _call_hooks(self) -> None:
        if self._is_calling:
            return
        self._is_calling = True
        try:
            while self._calls:
                hook, partitions, done = self._calls.popleft()
                if not done.set_running_or_notify_cancel():
                    continue
                try:
                    hook(partitions)
                except Exception as fault:  # noqa: BLE001  The core keeps it for the next call.
                    done.set_exception(fault)
                else:
                    done.set_result(None)
        finally:
            self._is_calling = False

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the I/O loop and wait; hooks run meanwhile."""
        assert self._io is not None
        future = self._io.submit(work)
        future.add_done_callback(lambda _: self._woken.set())
        while not future.done():
            self._woken.wait(1.0)
            self._woken.clear()
            self._call_hooks()
        return future.result()

    # Reading

    def poll(self, max_records: int | None = None, timeout_s: float = 1.0) -> list[Record[Any, Any]]:
        """Up to so many records, fewer where fewer are there, none after the timeout.

        The records of the call before are finished by this one.
        """
        reading = self._ready()
        most = self._settings.max_poll_records if max_records is None else max_records
        end_s: float | None = None
        while True:
            if self._calls:
                self._call_hooks()
            records = reading.take(most)
            if records:
                return records
            now_s = time.monotonic()
            end_s = now_s + timeout_s if end_s is None else end_s
            if now_s >= end_s:
                return records
            self._wait(reading, end_s - now_s)

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        """Records one by one, without end. A record is finished when the next one is asked for."""
        while True:
            reading = self._ready()
            self._call_hooks()
            records = reading.take_one_by_one(self._settings.max_poll_records)
            yield from reading.walk(records)
            if not records:
                self._wait(reading, None)

    def batches(self, max_records: int | None = None, timeout_s: float = 1.0) -> Iterator[list[Record[Any, Any]]]:
        """Lists of records, none of them empty, without end. A batch is finished when the next one is asked for."""
        while True:
            records = self.poll(max_records, timeout_s)
            if records:
                yield records

    def arrow(self, rows: int = _ROWS, every_s: float = 1.0) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of at most `rows`, at the latest `every_s` after their first record arrived."""
        from qanat.client.consumer.arrow_batches import record_batches

        self._ready().core.read_raw()
        while True:
            reading = self._ready()
            self._wait(reading, None)
            self._call_hooks()
            reading.check()
            end_s = time.monotonic() + every_s
            while time.monotonic() < end_s and reading.buffer.ready_rows < rows and not reading.buffer.is_full:
                self._woken.wait(max(0.0, end_s - time.monotonic()))
                self._woken.clear()
            yield from record_batches(reading.buffer.take_chunks(rows), rows)

    def _ready(self) -> Reading:
        if self._reading is None:
            self.start()
        assert self._reading is not None
        assert self._io is not None
        self._io.check()
        return self._reading

    def _wait(self, reading: Reading, timeout_s: float | None) -> None:
        """Wait until there is something to take, to hear or to call."""
        self._woken.clear()
        if not reading.has_something and not self._calls:
            self._woken.wait(timeout_s)

    # Offsets

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit these offsets, of the next records to read; without any, everything that was handed out.

        Raises `FencedError` where the group has given a partition to another member.
        """
        self._run(self._ready().core.commit(commit_values(offsets)))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The committed offsets of these partitions, or of the assigned ones."""
        return self._run(self._ready().core.committed(partitions or self.assignment))

    def seek(self, partition: TopicPartition, where: int | datetime | str) -> None:
        """Continue at an offset, at the first record of a time or later, at `"earliest"` or `"latest"`."""
        self._run(self._ready().core.seek(partition, where))

    def rewind(self) -> None:
        """Read again what was handed out and is not committed: after a transaction that was aborted.

        A partition without a committed offset goes back to where it began.
        """
        self._run(self._ready().core.rewind())
