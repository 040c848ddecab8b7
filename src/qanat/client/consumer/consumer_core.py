"""A consumer without its user: place in the group, fetches, positions and commits, all on the I/O loop.

`AsyncConsumer` and `Consumer` take records out of its buffer and call its coroutines.

Rule 1: no heartbeat and no fetch waits for the user; a revocation does, for a bounded time.
Rule 2: automatic commits name finished records only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime

from qanat.client.consumer.assigned_partition import AssignedPartition
from qanat.client.consumer.broker_offsets import BrokerOffsets
from qanat.client.consumer.fetcher import Fetcher
from qanat.client.consumer.group_metadata import ConsumerGroupMetadata
from qanat.client.consumer.offset_stores import GuardedStore, OffsetStore
from qanat.client.consumer.positions import Positions
from qanat.client.consumer.record_buffer import RecordBuffer
from qanat.client.consumer.settings import ConsumerSettings
from qanat.client.errors import ClientError
from qanat.client.io_loop import IoLoop
from qanat.connection.cluster import Cluster
from qanat.connection.consuming.chosen_membership import ChosenMembership
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.connection.consuming.member_ids import new_member_id
from qanat.connection.consuming.partition_cursor import Reset
from qanat.connection.offsets import list_offsets
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

_log = logging.getLogger("qanat.client")
_HAND_PART = 0.8
"""The part of a revocation's time that records in hand may take; hook and commit have the rest."""

Partitions = list[TopicPartition]
Hook = Callable[[Partitions], Awaitable[None]]
"""A hook as the I/O loop calls it: it runs in the user's thread, and its errors are the user's."""


class ConsumerCore:
    """The I/O side of one consumer. All coroutines run on the I/O loop."""

    def __init__(self, settings: ConsumerSettings, topics: Sequence[str], io: IoLoop) -> None:
        self.settings = settings
        self._topics = list(topics)
        self._io = io
        self.buffer = RecordBuffer(settings.queued_max_bytes, self._has_room)
        self.store: OffsetStore | None = None
        self.on_assigned: Hook | None = None
        self.on_revoked: Hook | None = None
        self.on_lost: Hook | None = None
        self.fatal: BaseException | None = None
        """Why this consumer cannot go on."""
        self.reports: list[QanatError] = []
        """What the user must hear with the next call."""
        self.problem = ""
        self._place: ChosenMembership | None = None
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_joined(self) -> bool:
        return self._place is None or self._place.is_joined

    @property
    def group_trouble(self) -> str:
        """What keeps the group's coordinator from answering; empty where it answers."""
        trouble = "" if self._place is None else self._place.trouble
        return trouble and f"the coordinator of group {self.settings.group_id} does not answer: {trouble}"

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        if self._place is None:
            raise ClientError("this consumer has no group: give it one, group=...")
        who = self._place.identity
        return ConsumerGroupMetadata(self.settings.group_id or "", who.epoch, who.member_id, who.instance_id)

    # Beginning and end

    async def open(self) -> None:
        """Connect, check the topics, join the group; returns before partitions are assigned."""
        settings = self.settings
        self._wake = asyncio.Event()
        self._requests = self._cluster()
        self._fetches = self._cluster()
        deadline = self._requests.deadline()
        sizes = {}
        for topic in self._topics:
            if not settings.allow_missing_topics:
                sizes[topic] = len((await self._requests.topic(topic, deadline, may_lack_leaders=True)).leaders)
        if settings.group_id is not None:
            self._place = ChosenMembership(
                self._requests,
                settings.group_id,
                self._topics,
                self,
                settings.place,
                member_id=new_member_id(),
                protocol=settings.group_protocol,
            )
            self.store = self.store or BrokerOffsets(self._requests, self._place)
        if self.store is not None:
            self.store = GuardedStore(self.store)
        self._fetcher = Fetcher(self._fetches, self.buffer, settings, self._report)
        self._positions = Positions(self._requests, self.buffer, settings, self.store, self._report)
        self._fetcher.on_change = self._positions.on_change = self._wake.set
        self._tasks = [asyncio.create_task(work) for work in (self._supervise(), self._refresh_metadata())]
        if self._place is not None:
            self._place.start()
            self._tasks.append(asyncio.create_task(self._watch_place()))
            if self._commits_itself:
                self._tasks.append(asyncio.create_task(self._commit_regularly()))
        else:
            await self.assigned([TopicPartition(topic, one) for topic, size in sizes.items() for one in range(size)])

    def _cluster(self) -> Cluster:
        settings = self.settings
        return Cluster(
            settings.bootstrap_servers,
            settings.client_id,
            settings.request_timeout_ms / 1000,
            settings.security,
            settings.bootstrap_timeout_ms / 1000,
        )

    async def close(self) -> None:
        """Commit what is finished, leave the group, close the connections."""
        self._is_closing = True
        if self._place is not None:
            await self._place.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
            await self._fetcher.close()
            await self._positions.close()
        for cluster in (self._requests, self._fetches):
            await cluster.__aexit__()

    @property
    def _commits_itself(self) -> bool:
        return self.settings.enable_auto_commit and self.settings.group_id is not None

    # Tasks

    async def _supervise(self) -> None:
        while True:
            self._wake.clear()
            self._positions.start_lookups()
            self._fetcher.start_fetches()
            await self._wake.wait()

    async def _watch_place(self) -> None:
        assert self._place is not None
        try:
            await self._place.wait_failed()
        except Exception as fault:  # noqa: BLE001  Whatever ends the membership, the user must hear of it.
            self.fatal = fault
            self.problem = str(fault)
            self.buffer.wake()

    async def _refresh_metadata(self) -> None:
        while True:
            await asyncio.sleep(self.settings.metadata_max_age_ms / 1000)
            with contextlib.suppress(QanatError):
                await self._positions.refresh({at.topic for at in self.buffer.partitions})

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.settings.auto_commit_interval_ms / 1000)
            await self._commit_finished(None)

    def _has_room(self) -> None:
        """Called in the user's thread."""
        self.buffer.is_waiting_for_room = False
        self._io.soon(self._wake.set)

    def wake(self) -> None:
        """Look again what is to be fetched; called in any thread."""
        self._io.soon(self._wake.set)

    def read_raw(self) -> None:
        """Leave batches encoded from now on."""
        self._fetcher.is_raw = True

    def _report(self, one: AssignedPartition, message: str) -> None:
        """Tell of an offset that is gone: once, and as an error where nothing goes on by itself."""
        _log.warning(message)
        self.problem = message
        if one.cursor.failure:
            self.reports.append(ClientError(message))
            self.buffer.wake()

    # The group's listener

    async def assigned(self, partitions: Partitions) -> None:
        new = [AssignedPartition(at, self.settings.reset) for at in partitions if at not in self.buffer.partitions]
        for one in new:
            one.is_held = self.on_assigned is not None
        self.buffer.add(new)
        if self.on_assigned is not None:
            await self._call(self.on_assigned, partitions)
        for one in new:
            one.is_held = False
        self._wake.set()

    async def revoked(self, partitions: Partitions) -> None:
        self.buffer.leave(partitions)
        limit_s = self.settings.max_poll_interval_ms / 1000
        try:
            if not self._is_closing and (self._commits_itself or self.on_revoked is None):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wait_for_hand(partitions), limit_s * _HAND_PART)
            if self.on_revoked is not None:
                await self._call(self.on_revoked, partitions)
            if self._commits_itself:
                await self._commit_finished(partitions)
        finally:
            self.buffer.remove(partitions)

    async def lost(self, partitions: Partitions) -> None:
        self.buffer.remove(partitions)
        hook = self.on_lost or self.on_revoked
        if hook is not None:
            await self._call(hook, partitions)

    async def _call(self, hook: Hook, partitions: Partitions) -> None:
        """Call a hook; what it raises, the user hears with the next call."""
        try:
            await hook(partitions)
        except Exception as fault:  # noqa: BLE001  The user's code: whatever it raises is the user's.
            self.fatal = fault
            self.buffer.wake()
            if self._is_closing:
                _log.exception("a hook failed while its consumer was closed")

    async def _wait_for_hand(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until the user has finished the records of these partitions."""
        finished = asyncio.Event()
        self.buffer.on_finished = lambda: self._io.soon(finished.set)
        try:
            while self.buffer.hand.holds(partitions):
                await finished.wait()
                finished.clear()
        finally:
            self.buffer.on_finished = None

    # Commits

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None) -> None:
        """Commit these, or everything that was handed out; raises where the group has moved on."""
        if self.store is None:
            raise ClientError("this consumer has neither a group nor a store for offsets: give it one, group=...")
        wanted = dict(self.buffer.given_offsets() if offsets is None else offsets)
        if wanted:
            await self.store.save(self.settings.group_id or "", wanted)
            self.buffer.note_committed(wanted)

    async def _commit_finished(self, only: Collection[TopicPartition] | None) -> None:
        wanted = self.buffer.finished_offsets(only)
        try:
            if wanted:
                await self.commit(wanted)
        except QanatError as fault:
            self.problem = f"offsets cannot be committed: {fault}"
            _log.warning(self.problem)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.store is None:
            return {}
        found = await self.store.load(self.settings.group_id or "", list(partitions))
        return {at: one.offset for at, one in found.items()}

    # Positions

    async def seek(self, at: TopicPartition, where: int | datetime | str) -> None:
        """Go on at an offset, at the first record of a time, at `earliest` or `latest`."""
        one = self.partition(at)
        if isinstance(where, datetime):
            moment = {at.partition: int(where.timestamp() * 1000)}
            found = await list_offsets(self._requests, at.topic, moment, self._requests.deadline())
            offset = found[at.partition].offset
            where = offset if offset >= 0 else "latest"
        if isinstance(where, str):
            one.cursor.reset(Reset(where))
            self.buffer.seek(one, -1)
        else:
            one.cursor.seek(where)
            self.buffer.seek(one, where)
        self._wake.set()

    async def rewind(self) -> None:
        """Go back to the committed offsets; where there is none, to where the partition began."""
        if self.store is None:
            raise ClientError("this consumer has neither a group nor a store for offsets: give it one, group=...")
        for one in self.buffer.partitions.values():
            if not one.is_leaving:
                one.cursor.rewind()
                self.buffer.seek(one, -1)
        self._wake.set()

    def partition(self, at: TopicPartition) -> AssignedPartition:
        """The assigned partition; raises where it is not ours."""
        found = self.buffer.partitions.get(at)
        if found is None:
            mine = ", ".join(map(str, sorted(self.buffer.partitions))) or "none"
            raise ClientError(f"{at} is not assigned to this consumer; assigned: {mine}")
        return found
