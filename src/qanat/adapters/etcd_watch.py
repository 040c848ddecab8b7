"""One watcher on etcd: every change once and in order, over as many streams as it takes.

Rule 1: the watcher remembers the revision of the last event; a new stream begins after it. Repeated or late
        events are dropped (C80).
Rule 2: silence is checked. After `PROGRESS_S` without a message the member is asked for its progress; after
        `STALL_S` without an answer the next member is watched. The answer proves that the member is there
        and nothing else: etcd 3.4 sends it before events that are on their way.
Rule 3: a revision is passed on when it is complete: fragments are gathered first.
Rule 4: a stream begins with the last revision that was received, not the one after it. Some versions forget a deletion
        at exactly the revision up to which they are compacted (etcd-io/etcd#19179, in 3.4.23); this way they
        refuse to begin there, and we list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import groupby

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_connection import PAUSE_MAX_S, PAUSE_S, EtcdConnection, Stream
from qanat.adapters.etcd_errors import EtcdFault, FaultKind, store_error
from qanat.adapters.etcd_keys import Keys
from qanat.cluster.store import NO_REVISION, Changes, Compacted, Event, EventKind, Revision
from qanat.model.errors import StoreUnavailableError

PROGRESS_S = 2.0
STALL_S = 5.0


class EtcdWatch:
    """`current_revision` reads the store linearizably; `closing` is set when the store closes."""

    def __init__(
        self,
        connection: EtcdConnection,
        keys: Keys,
        closing: asyncio.Event,
        current_revision: Callable[[], Awaitable[Revision]],
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._closing = closing
        self._current_revision = current_revision

    async def changes(self, prefix: str, after: Revision) -> AsyncGenerator[Changes | Compacted, None]:
        failures = 0
        while True:
            switch_count = self._connection.switch_count
            try:
                async for answer in self._answers(prefix, after):
                    failures = 0
                    if answer.compact_revision:
                        yield Compacted(Revision(answer.compact_revision))
                        return
                    if answer.is_cancelled:
                        raise EtcdFault(FaultKind.UNANSWERED, answer.reason)
                    if answer.is_created and answer.header.revision < after:
                        await self._check_not_behind(after)
                    for changes in self._changes(answer, after):
                        after = changes.revision
                        yield changes
            except EtcdFault as fault:
                if fault.kind is FaultKind.FINAL:
                    raise store_error("watch", self._connection.access, fault) from None
                self._connection.switch_member(switch_count, fault)
                failures += 1
                await self._pause(min(PAUSE_S * failures, PAUSE_MAX_S))

    async def _answers(self, prefix: str, after: Revision) -> AsyncGenerator[messages.WatchAnswer, None]:
        """The complete answers of one stream; ends only with a fault."""
        stream = await self._connection.open_stream(messages.WATCH)
        reading: asyncio.Task[bytes] | None = None
        closing = asyncio.create_task(self._closing.wait())
        try:
            # Never 0, which would mean: from now on.
            request = messages.watch_create_request(*self._keys.range_of(prefix), max(after, 1))
            await self._connection.write_to(stream, request)
            gathered: list[messages.WatchEvent] = []
            while True:
                reading = asyncio.create_task(self._connection.read_from(stream))
                await self._heard(stream, reading, closing)
                answer = messages.read_watch(reading.result())
                gathered += answer.events
                if not answer.is_fragment:
                    answer.events, gathered = gathered, []
                    yield answer
        finally:
            closing.cancel()
            stream.cancel()
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _heard(self, stream: Stream, reading: asyncio.Task[bytes], closing: asyncio.Task[bool]) -> None:
        """Wait for an answer; ask for progress where none comes, and give up where none comes then."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not reading.done():
            await asyncio.wait((reading, closing), timeout=PROGRESS_S, return_when=asyncio.FIRST_COMPLETED)
            self._check_open()
            if reading.done():
                return
            if loop.time() - last >= STALL_S:
                raise EtcdFault(FaultKind.UNANSWERED, f"nothing was heard for {STALL_S:g} s", is_silent=True)
            await self._connection.write_to(stream, messages.watch_progress_request())

    def _changes(self, answer: messages.WatchAnswer, after: Revision) -> list[Changes]:
        events = [self._event(event) for event in answer.events]
        new = [event for event in events if event.revision > after]
        return [Changes(at, tuple(group)) for at, group in groupby(new, key=lambda event: event.revision)]

    def _event(self, event: messages.WatchEvent) -> Event:
        entry = event.entry
        key, revision = self._keys.shown(entry.key), Revision(entry.mod_revision)
        if event.is_delete:
            return Event(EventKind.DELETE, key, b"", revision, NO_REVISION)
        return Event(EventKind.PUT, key, entry.value, revision, Revision(entry.create_revision))

    async def _check_not_behind(self, after: Revision) -> None:
        """A single member may be behind for a moment; all of them together may not."""
        current = await self._current_revision()
        if current < after:
            raise StoreUnavailableError(
                f"the metadata store, {self._connection.access}, is at revision {current} and has been at {after}: "
                "it was restored from an old copy; restart the broker"
            )

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return
        self._check_open()

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise StoreUnavailableError("the metadata store is closed")
