"""A subscription in mode `log` or `all`: partitions come and go, acknowledgements are committed.

`edge.push_session` decides what may leave and what is committed; `partition_readers` deliver. In `log` the subscriber
is a member of a consumer group (KIP-848) by the client library's own membership, over requests in this process.

Rule: a commit says which topic it is about, by id: one of a topic that was deleted since is no commit of the topic that
      has its name now.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from qanat.connection.committed import committed_positions
from qanat.connection.consuming.consumer_membership import ConsumerMembership
from qanat.connection.consuming.group_commits import ABOUT_TOPIC, CommittedOffset
from qanat.connection.consuming.group_place import PlaceTerms
from qanat.connection.faults import RefusedError
from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import WrongFrameError
from qanat.edge.push_session import Place, PushSession
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.push.partition_readers import PartitionReaders
from qanat.servers.push.partition_reads import first_offset
from qanat.servers.push.refreshing import SubscriberRefreshes
from qanat.wire.push.control import Ack, CommitOffset, Mode, Start, Subscribe, encode_control
from qanat.wire.push.frames import FrameType

if TYPE_CHECKING:
    from qanat.servers.push.ports import PushClient

_REBALANCE_MS = 30_000
_COMMIT_PAUSE_S = 0.05
"""Between commits of what is acknowledged: each is a durable write. COMMIT_OFFSET and revocations do not wait."""
_PAUSE_S = 0.25
"""Pause after a look-up that failed."""
_RETRY_S = 1.0
"""Pause after a commit that nobody answered."""
TOPIC_TIMEOUT_MS = 5_000
"""How long a deleted topic may be missing before its subscribers are told: one that is made again comes with RESET."""
_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Beginning(NamedTuple):
    """Where an assignment begins."""

    place: Place
    topic_id: str
    is_committed: bool = False


class LogSubscription:
    """One subscriber; also the listener of its membership."""

    def __init__(self, connection: PushClient, wanted: Subscribe) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self._broker = connection.cluster.broker
        self._wanted = wanted
        self._topics = {name: index for index, name in enumerate(wanted.wanted)}
        self.mode = wanted.chosen_mode
        self.group = wanted.group
        self.member = ""
        """The id in the group."""
        self._is_superseded = False
        credit = CreditWindow(wanted.credit.records, wanted.credit.bytes)
        self.session = PushSession(credit, connection.now_ms(), is_committing=self.mode is Mode.LOG)
        self._readers = PartitionReaders(connection, self.session, wanted)
        self._positions = {TopicPartition(one.topic, one.partition): one for one in wanted.positions}
        self._membership: ConsumerMembership | None = None
        self._missing: dict[str, int] = {}
        """Topics that are not there, and since when."""
        self._loop = asyncio.get_running_loop()
        self._commit_task: asyncio.Task[None] | None = None
        self._commit_timer: asyncio.TimerHandle | None = None
        self._commit_answers: list[int] = []
        self.is_over = False
        self._refreshes = SubscriberRefreshes(
            connection, self.session, lambda: self._broker.push_refreshes, self.group, self._readers
        )
        self._readers.refreshes = self._refreshes

    # Beginning and end

    async def start(self) -> None:
        """Take the partitions, or join the group; raises where that is refused."""
        if self.mode is Mode.LOG:
            terms = PlaceTerms(rebalance_ms=_REBALANCE_MS)
            member_id = self.member = self._wanted.member or str(uuid.uuid4())
            self._membership = ConsumerMembership(self._cluster, self.group, list(self._topics), self, terms, member_id)
            self._membership.start()
            self._spawn(self._watch_membership(self._membership))
            return
        for topic, count in self._connection.partition_counts.items():
            await self.assigned([TopicPartition(topic, number) for number in range(count)])

    async def _watch_membership(self, membership: ConsumerMembership) -> None:
        try:
            await membership.wait_failed()
        except QanatError as fault:
            self._connection.end("group-refused", str(fault))

    def supersede(self) -> None:
        """The member goes on over another connection: it does not leave the group with this one."""
        self._is_superseded = True
        self._connection.end("superseded", f"member {self.member} has another connection")

    async def close(self) -> None:
        """Leave the group; what is acknowledged is committed first."""
        self.is_over = True
        self._readers.close()
        if self._membership is not None:
            await self._membership.close(is_leaving=not self._is_superseded)
        if self._commit_task is not None:
            await asyncio.wait([self._commit_task])
        if self._commit_timer is not None:
            self._commit_timer.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._connection.spawn(work)

    # The group

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        for at, begins in (await self._beginnings(partitions)).items():
            if self.is_over:
                return
            self.session.assign(at, begins.place)
            self._readers.add(at, begins.topic_id, is_committed=begins.is_committed)
        self._look()
        self._readers.schedule()

    async def _beginnings(self, partitions: list[TopicPartition]) -> dict[TopicPartition, _Beginning]:
        """Where to begin; a group waits until its coordinator and the leaders answer."""
        while True:
            try:
                return await self._look_up(partitions)
            except QanatError as fault:
                if self.mode is Mode.ALL:
                    raise
                if fault.code in _NOT_ALLOWED:
                    self._connection.end("not-authorized", str(fault))
                if fault.code in (*_NO_TOPIC, *_NOT_ALLOWED) or self.is_over:
                    return {}  # The group takes the partitions of a deleted topic away.
            await asyncio.sleep(_PAUSE_S)

    async def _look_up(self, partitions: list[TopicPartition]) -> dict[TopicPartition, _Beginning]:
        found: dict[TopicPartition, _Beginning] = {}
        ids = {at.topic: self._cluster.topic_id(at.topic) for at in partitions}
        if self.mode is Mode.LOG:
            committed = await committed_positions(
                self._cluster, self.group, self._cluster.deadline(), only=partitions, is_stable=True
            )
            for at, one in committed.items():
                if one.metadata in ("", ABOUT_TOPIC + ids[at.topic]) or not one.metadata.startswith(ABOUT_TOPIC):
                    found[at] = _Beginning(Place(one.offset, one.leader_epoch), ids[at.topic], is_committed=True)
        for at in partitions:
            named = self._positions.get(at)
            if at not in found and self.mode is Mode.ALL and named is not None and named.offset >= 0:
                found[at] = _Beginning(Place(named.offset, named.epoch), named.topic_id or ids[at.topic])
            elif at not in found:
                is_earliest = self._wanted.start is Start.EARLIEST
                offset = await first_offset(self._cluster, at, is_earliest=is_earliest)
                found[at] = _Beginning(Place(offset), ids[at.topic])
        return found

    async def revoked(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._readers.remove(at)
            self._refreshes.revoked(at)
            self.session.revoke(at)
        while self.session.has_commits_of(partitions):
            self._commit_now()
            assert self._commit_task is not None
            await asyncio.wait([self._commit_task])
        for at in partitions:
            self.session.forget(at)

    async def lost(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._readers.remove(at)
            self._refreshes.lost(at)
            self.session.forget(at)

    # Frames of the client

    def acknowledge(self, frame_id: int, ack: Ack | None) -> None:
        if ack is not None and ack.credit is not None:
            self.session.credit.grant(ack.credit.records, ack.credit.bytes)
        now_ms = self._connection.now_ms()
        if self.session.is_answer(frame_id, now_ms):
            self._refreshes.acknowledge(frame_id, ack)
        else:
            self.session.acknowledge(frame_id, now_ms)
            if self._refreshes:
                self._refreshes.go_on()
        self._commit_soon()
        self._readers.credit_given()

    def commit(self, frame_id: int, wanted: CommitOffset) -> None:
        """COMMIT_OFFSET; answered once it is durable."""
        rows = wanted.positions
        places = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in rows}
        if not rows:
            topic = wanted.topic or next(iter(self._topics))
            places = {TopicPartition(topic, wanted.partition): Place(wanted.offset)}
        try:
            self.session.commit(places)
        except WrongFrameError as fault:
            refusal = Ack(error=fault.reason, message=str(fault))
            self._connection.send(FrameType.ACK, frame_id, encode_control(refusal))
            return
        self._commit_answers.append(frame_id)
        self._commit_now()

    def _commit_soon(self) -> None:
        """Commit what is acknowledged, unless the last commit has only just ended."""
        if self._commit_timer is None:
            self._commit_now()

    def _commit_now(self) -> None:
        if (self._commit_task is None or self._commit_task.done()) and self.session.has_commits:
            self._commit_task = self._loop.create_task(self._commit())

    def _pause_over(self) -> None:
        self._commit_timer = None
        self._commit_now()

    async def _commit(self) -> None:
        """Commit what is acknowledged, and go on while a COMMIT_OFFSET waits for its answer."""
        assert self._membership is not None, "only a member commits"
        while (places := self.session.next_commit()) is not None:
            answers, self._commit_answers = self._commit_answers, []
            offsets = self._of_present_topics(places)
            is_durable, is_answered, why = False, True, "the group gave the partition to another member"
            try:
                is_durable = bool(offsets) and await self._membership.commit(offsets)
            except QanatError as fault:
                is_answered = isinstance(fault, RefusedError) and not fault.is_retriable
                why = str(fault)
            except BaseException:
                self.session.commit_ended(is_durable=False)
                raise
            if is_answered:
                self.session.commit_ended(is_durable=is_durable)
            else:
                self.session.commit_failed()
            if self._refreshes:
                self._refreshes.commit_ended(offsets, is_durable=is_durable)
            answer = Ack() if is_durable else Ack(error="not-committed", message=why)
            for frame_id in answers:
                self._connection.send(FrameType.ACK, frame_id, encode_control(answer))
            if self._commit_timer is None and not self.is_over:
                pause_s = _COMMIT_PAUSE_S if is_answered else _RETRY_S
                self._commit_timer = self._loop.call_later(pause_s, self._pause_over)
            if not self._commit_answers:
                return

    def _of_present_topics(self, places: Mapping[TopicPartition, Place]) -> dict[TopicPartition, CommittedOffset]:
        """What to commit: nothing of a topic that was deleted, also where another one has its name."""
        found = {}
        for at, place in places.items():
            topic_id = self._readers.topic_ids.get(at, "")
            if topic_id == self._cluster.topic_id(at.topic):
                found[at] = CommittedOffset(place.offset, place.epoch, ABOUT_TOPIC + topic_id)
        return found

    # Refreshes

    def tick(self) -> None:
        """Look at the topics and at the ledger, and repeat what was not answered."""
        self._look_at_topics()
        self._look()
        self._readers.look()

    @property
    def wants_tick(self) -> bool:
        """Whether `tick` has something to do soon, although nothing has happened."""
        return self.mode is Mode.LOG or bool(self._missing) or self._readers.wants_look

    def pump(self) -> None:
        """The socket has room again."""
        self._readers.pump()

    def pump_late(self) -> None:
        """The late pass."""
        self._readers.pump_late()

    def _look(self) -> None:
        if self.mode is Mode.LOG:
            self._refreshes.look(self._topics)

    def _look_at_topics(self) -> None:
        """Topics may be deleted; a subscriber without a group gets partitions that are added, as a group does."""
        topics, now_ms = self._broker.metadata.image.topics, self._connection.now_ms()
        for name in self._topics:
            topic = topics.get(name)
            if topic is not None:
                self._missing.pop(name, None)
                if self.mode is Mode.ALL:
                    self._add_partitions(name, len(topic.partitions))
            elif now_ms - self._missing.setdefault(name, now_ms) >= TOPIC_TIMEOUT_MS:
                self._connection.end("unknown-topic-or-partition", f"topic {name} was deleted")
                return

    def _add_partitions(self, topic: str, count: int) -> None:
        counts = self._connection.partition_counts
        for number in range(counts[topic], count):
            at = TopicPartition(topic, number)
            self.session.assign(at, Place(0))
            self._readers.add(at, self._cluster.topic_id(topic))
        counts[topic] = max(counts[topic], count)

    @property
    def refresh(self) -> str:
        """How far its refreshes are."""
        return self._refreshes.summary

    def is_overdue(self, now_ms: int) -> bool:
        return self.session.is_overdue(now_ms)

    def unfinished(self) -> dict[TopicPartition, tuple[int, int]]:
        """The next offset of each partition that leaves, and how many records before it are not acknowledged."""
        out = self.session.unacknowledged_records()
        return {at: (cursor.place.offset, out.get(at, 0)) for at, cursor in self.session.cursors.items()}

    @property
    def acknowledged_id(self) -> int:
        return self.session.acknowledged_id

    @property
    def credit(self) -> CreditWindow:
        return self.session.credit

    @property
    def out_records(self) -> int:
        return self.session.credit.out_records
