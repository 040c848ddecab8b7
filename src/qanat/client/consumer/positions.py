"""Where partitions begin and continue: offsets of the store, resets, leaders, validation after a change of leader.

Runs on the I/O loop, beside the fetches: whatever a cursor needs before it can be fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from qanat.client.consumer.assigned_partition import AssignedPartition
from qanat.client.consumer.offset_stores import OffsetStore
from qanat.client.consumer.record_buffer import RecordBuffer
from qanat.client.consumer.settings import ConsumerSettings
from qanat.connection.cluster import Cluster
from qanat.connection.consuming.group_commits import ABOUT_TOPIC
from qanat.connection.consuming.partition_cursor import Need, Reset
from qanat.connection.consuming.topic_views import view_topics
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.offsets import EARLIEST, LATEST, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.kafka.layouts import ZERO_UUID

_log = logging.getLogger("qanat.client")
_PAUSE_S = 0.1
_PAUSE_MAX_S = 1.0
_AT_WORK = (Need.OFFSET, Need.RESET, Need.LEADER, Need.VALIDATION)


class Positions:
    """What cursors need, looked up."""

    def __init__(
        self,
        cluster: Cluster,
        buffer: RecordBuffer,
        settings: ConsumerSettings,
        store: OffsetStore | None,
        report: Callable[[AssignedPartition, str], None],
    ) -> None:
        self._cluster = cluster
        self._buffer = buffer
        self._settings = settings
        self._store = store
        self._report = report
        self._working: asyncio.Task[None] | None = None
        self._pause_s = _PAUSE_S
        self._has_warned = False
        self.on_change: Callable[[], None] = lambda: None

    def start_lookups(self) -> None:
        """Begin to look up what is missing, unless that is under way."""
        if self._working is None and self._lacking(*_AT_WORK):
            self._working = asyncio.create_task(self._work())

    async def close(self) -> None:
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])

    def _lacking(self, *needs: Need) -> list[AssignedPartition]:
        return [
            one
            for one in self._buffer.partitions.values()
            if not one.is_leaving and not one.is_held and one.cursor.need in needs
        ]

    async def _work(self) -> None:
        try:
            await self._load(self._lacking(Need.OFFSET))
            # What was fetched before the offset was gone comes first.
            await self._reset([one for one in self._lacking(Need.RESET) if not one.chunks])
            await self.refresh({one.at.topic for one in self._lacking(Need.LEADER)})
            for one in self._lacking(Need.VALIDATION):
                await self._validate(one)
            is_done = not self._lacking(*_AT_WORK)
            self._pause_s = _PAUSE_S if is_done else min(2 * self._pause_s, _PAUSE_MAX_S)
            if not is_done:
                await asyncio.sleep(self._pause_s)
        except QanatError as fault:
            _log.debug("positions: %s", fault)
            is_passing = isinstance(fault, UnreachableError | OutOfTimeError)
            if not is_passing and not (isinstance(fault, RefusedError) and fault.is_retriable):
                self._fail(str(fault))
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        finally:
            self._working = None
            self.on_change()

    def _fail(self, reason: str) -> None:
        for one in self._lacking(Need.OFFSET, Need.RESET):
            one.cursor.fail(reason)
            self._report(one, reason)

    async def _load(self, some: list[AssignedPartition]) -> None:
        if not some:
            return
        tokens = {one.at: one.cursor.token for one in some}
        loaded = await self._store.load(self._settings.group_id or "", list(tokens)) if self._store else {}
        for one in some:
            if one.cursor.token != tokens[one.at]:
                continue
            found = loaded.get(one.at)
            if found is None and one.begun_at >= 0:
                # It was rewound, and nothing is committed yet.
                one.cursor.seek(one.begun_at)
                self._buffer.seek(one, one.begun_at)
            elif found is None:
                one.cursor.has_no_offset(str(one.at))
                if one.cursor.failure:
                    self._report(one, one.cursor.failure)
            else:
                self._ignore_metadata(one, found.metadata)
                one.cursor.seek(found.offset, found.leader_epoch)
                one.committed = found.offset
                self._buffer.seek(one, found.offset, found.leader_epoch)

    def _ignore_metadata(self, one: AssignedPartition, metadata: str) -> None:
        """Other clients keep unfinished offsets there: said once, because their finished records come again here."""
        if metadata and not metadata.startswith(ABOUT_TOPIC) and not self._has_warned:
            self._has_warned = True
            text = "the committed offset of %s has metadata of another client, which is ignored: %.60r"
            _log.warning(text, one.at, metadata)

    async def _reset(self, some: list[AssignedPartition]) -> None:
        for topic in sorted({one.at.topic for one in some}):
            mine = {one.at.partition: (one, one.cursor.token) for one in some if one.at.topic == topic}
            moments = {
                number: EARLIEST if one.cursor.reset_to is Reset.EARLIEST else LATEST
                for number, (one, _) in mine.items()
            }
            found = await list_offsets(
                self._cluster,
                topic,
                moments,
                self._cluster.deadline(),
                is_committed_only=self._settings.is_committed_only,
            )
            for number, (one, token) in mine.items():
                if one.cursor.token == token:
                    one.cursor.seek(found[number].offset)
                    self._buffer.seek(one, found[number].offset)

    async def refresh(self, topics: Collection[str]) -> None:
        """Leaders, leader epochs and topic ids, as a broker knows them now."""
        if not topics:
            return
        views = await view_topics(self._cluster, topics, self._cluster.deadline())
        for one in self._buffer.partitions.values():
            view = views.get(one.at.topic)
            if view is None or view.error_code or one.at.partition not in view.leaders:
                continue
            if one.topic_id not in (ZERO_UUID, view.topic_id):
                self._make_anew(one)
            one.topic_id = view.topic_id
            one.cursor.led_by(*view.leaders[one.at.partition])

    def _make_anew(self, one: AssignedPartition) -> None:
        self._report(one, f"{one.at} was deleted and made again: continuing at its beginning")
        one.cursor.made_anew()
        one.cursor.reset(Reset.EARLIEST)
        one.begun_at = -1
        self._buffer.seek(one, -1)

    async def _validate(self, one: AssignedPartition) -> None:
        # Imported late: consumers start faster, and most never see another leader.
        from qanat.connection.consuming.epoch_ends import epoch_end

        cursor = one.cursor
        token = cursor.token
        deadline = self._cluster.deadline()
        link = await self._cluster.node_link(cursor.leader, deadline)
        found = await epoch_end(link, one.at, cursor.leader_epoch, cursor.read_epoch, deadline)
        if cursor.token != token:
            return
        if found.error_code != ErrorCode.NONE:
            cursor.lost_leader()
            return
        message = cursor.validated(found.epoch, found.end_offset, str(one.at))
        if message is not None:
            self._report(one, message)
            if not cursor.failure and cursor.need is not Need.RESET:
                # What was fetched ahead may be part of what was truncated: it is fetched again.
                cursor.seek(min(cursor.offset, one.position) if one.position >= 0 else cursor.offset)
                self._buffer.seek(one, cursor.offset)
