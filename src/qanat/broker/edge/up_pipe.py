"""The way up of a node: the records of its outboxes go to the parent, one request at a time, on a connection that is
kept.

The parent is the first of the node's parents that is a Qanat broker. There is no second one, as there is for the way
down: who else could say which records the first one has? While it is away, records stay.

Rule 1: a fault of the link pauses all outboxes, a refusal of the parent only the one that it is about.
Rule 2: nothing but closing ends it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from qanat.broker.edge.edge_host import EdgeHost
from qanat.broker.edge.edge_state import EdgeState, UpBinding
from qanat.broker.edge.http_client import HttpAnswer, HttpClient, SilentError
from qanat.broker.edge.up_sender import UpRefusedError, UpSender, UpState
from qanat.connection.faults import UnreachableError
from qanat.edge.backoff import Backoff
from qanat.edge.pace import Pace, in_order
from qanat.edge.settings import EdgeSettings
from qanat.edge.topology import Parent, Topology, is_wanted
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import log_event
from qanat.wire.up_messages import BeginUp, UpBegun, UpRecords, UpTaken, encode_records

_LOOK_S = 1.0
"""How often new outboxes are looked for; records of known ones are noticed at once."""
_SILENT_MS = 2_000
"""A silent link is tried so often: records go up within seconds after it is whole."""
_ANSWER_S = 30.0
"""How long the parent may take for a transaction, or to end the one before."""
_OVERDUE_S = 2.0
"""How long an answer may take, beyond the time of its bytes, before the request goes out on another connection: a cut
may have swallowed it."""
_Answer = TypeVar("_Answer")
_JSON: Mapping[str, str] = {}
_BYTES = {"Content-Type": "application/octet-stream"}
_BEGUN = msgspec.json.Decoder(UpBegun)
_TAKEN = msgspec.json.Decoder(UpTaken)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Link:
    """Requests to one parent, at the speed of the link."""

    def __init__(self, parent: Parent, authorization: str, pace: Pace) -> None:
        self.parent = parent
        self._client = HttpClient(parent.url, authorization=authorization)
        self._pace = pace
        self.requests = 0

    @property
    def piece_bytes(self) -> int:
        return self._pace.answer_bytes()

    async def begin(self, asked: BeginUp) -> UpBegun:
        answer = await self._request("/api/v1/edge/up/begin", msgspec.json.encode(asked))
        return self._decoded(_BEGUN, answer)

    async def take(self, head: UpRecords, content: memoryview) -> UpTaken:
        wait_ms = self._pace.wait_ms(_now_ms())
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        began_ms = _now_ms()
        answer = await self._request("/api/v1/edge/up", encode_records(head, content), _BYTES)
        self._pace.answered(len(content), 0, _now_ms() - began_ms, _now_ms())
        return self._decoded(_TAKEN, answer)

    async def _request(self, target: str, body: bytes, headers: Mapping[str, str] = _JSON) -> HttpAnswer:
        self.requests += 1
        # What is repeated changes nothing: an upload is named by what is in it, and the mark tells what was appended.
        answer = await self._client.request(
            "POST",
            target,
            body=body,
            headers=headers,
            wait_s=_ANSWER_S,
            is_repeatable=True,
            overdue_s=_OVERDUE_S + 2 * self._pace.expected_ms(len(body)) / 1000,
        )
        if answer.status == 200:
            return answer
        raise UpRefusedError(f"{self.parent.node} answers with status {answer.status}: {_detail(answer.body)}")

    def _decoded(self, decoder: msgspec.json.Decoder[_Answer], answer: HttpAnswer) -> _Answer:
        try:
            return decoder.decode(answer.body)
        except msgspec.MsgspecError as fault:
            raise UpRefusedError(f"the answer of {self.parent.node} cannot be read: {fault}") from None

    async def close(self) -> None:
        await self._client.close()


class UpPipe:
    """The way up of one node. `run` until cancelled; `steer` with each topology."""

    def __init__(self, broker: EdgeHost, settings: EdgeSettings, state: EdgeState) -> None:
        self._broker = broker
        self._settings = settings
        self._state = state
        self._priority = tuple(one.strip() for one in settings.pipe_priority_topics.split(",") if one.strip())
        self._pace = Pace(settings.pipe_up_max_bytes_per_s)
        self.parent: Parent | None = None
        self.senders: dict[TopicPartition, UpSender] = {}
        self._link: _Link | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff(random.random)
        self._paused_until_ms = 0
        self.last_fault = ""
        """Why the parent could not be reached the last time; empty where it was."""
        self.requests = self.failures = self.sent_records = self.sent_bytes = 0

    @property
    def lag_records(self) -> int:
        return sum(one.lag_records for one in self.senders.values())

    @property
    def waiting(self) -> int:
        """Partitions whose last request failed."""
        return sum(one.state is UpState.WAITING for one in self.senders.values())

    @property
    def stopped(self) -> int:
        """Partitions that wait for their operator."""
        return sum(one.state is UpState.STOPPED for one in self.senders.values())

    def steer(self, topology: Topology) -> None:
        """Send records to this parent from now on."""
        parent = next((one for one in topology.parents if not one.is_feed), None)
        if parent == self.parent:
            return
        self.parent = parent
        self._paused_until_ms = 0
        self._backoff.succeeded()
        for sender in self.senders.values():
            sender.restart()
        self._wake.set()

    async def run(self) -> None:
        """Send for ever."""
        while True:
            self._wake.clear()
            self._look()
            now_ms = _now_ms()
            parent = self.parent
            due = [] if parent is None or self._paused_until_ms > now_ms else self._due(now_ms)
            if parent is None or not due:
                await self._sleep(now_ms)
                continue
            for sender in due:
                if self.parent != parent or self._paused_until_ms > _now_ms():
                    break
                await self._turn(parent, sender)

    async def _sleep(self, now_ms: int) -> None:
        """Until a record is appended, a parent is named, or something is due."""
        for sender in self.senders.values():
            if not sender.lag_records:
                sender.partition.wait_for_more(self._wake.set)
        dues = [self._paused_until_ms, *(one.next_at_ms for one in self.senders.values() if one.lag_records)]
        waits_s = [(due - now_ms) / 1000 for due in dues if due > now_ms]
        try:
            async with asyncio.timeout(max(0.01, min([_LOOK_S, *waits_s]))):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _look(self) -> None:
        """Find the outboxes that this broker leads now."""
        partitions = self._broker.local_replicas.partitions
        for at, sender in list(self.senders.items()):
            if sender.is_over or partitions.get(at) is not sender.partition:
                sender.partition.stop_waiting(self._wake.set)
                self._count(self.senders.pop(at))
        image = self._broker.metadata.image
        for at, partition in partitions.items():
            if partition.outbox is not None and at not in self.senders and at.topic in image.topics:
                topic_id = image.topics[at.topic].topic_id
                self.senders[at] = UpSender(self._broker, partition, topic_id, image.cluster_id, self._state)

    def _due(self, now_ms: int) -> list[UpSender]:
        due = [at for at, one in self.senders.items() if one.is_due(now_ms)]
        first = [at for at in due if self._priority and is_wanted(at.topic, self._priority)]
        rest = [at for at in due if at not in first]
        return [self.senders[at] for at in in_order([first, rest] if first else [rest], self.requests)]

    async def _turn(self, parent: Parent, sender: UpSender) -> None:
        """One step of one partition."""
        link = await self._link_to(parent)
        try:
            await sender.step(parent, link, self)
        except UnreachableError as fault:
            self.failures += 1
            self._note_fault(parent, str(fault))
            pause_ms = _SILENT_MS if isinstance(fault, SilentError) else self._backoff.failed()
            self._paused_until_ms = _now_ms() + pause_ms
            sender.failed(fault, self._paused_until_ms)
        except QanatError as fault:
            self.failures += 1
            sender.failed(fault, _now_ms() + sender.backoff.failed())
        else:
            self._note_fault(parent, "")
            self._backoff.succeeded()
            sender.backoff.succeeded()
        self.requests += link.requests
        link.requests = 0
        self._count(sender)

    def _count(self, sender: UpSender) -> None:
        self.sent_records += sender.sent_records
        self.sent_bytes += sender.sent_bytes
        sender.sent_records = sender.sent_bytes = 0

    def _note_fault(self, parent: Parent, reason: str) -> None:
        if reason and not self.last_fault:
            log_event("parent takes no records", level="warning", parent=parent.node, reason=reason)
        elif self.last_fault and not reason:
            log_event("parent takes records again", parent=parent.node)
        self.last_fault = reason

    async def _link_to(self, parent: Parent) -> _Link:
        if self._link is None or self._link.parent != parent:
            await self.close()
            self._link = _Link(parent, self._settings.edge_authorization, self._pace)
        return self._link

    async def settle(self, bound: UpBinding, asked: BeginUp) -> UpBegun:
        """How far a former parent has the records; it takes no more of them."""
        former = _Link(Parent(bound.parent, bound.url), self._settings.edge_authorization, Pace())
        try:
            return await former.begin(asked)
        except UnreachableError as fault:
            raise UpRefusedError(
                f"the former parent {bound.parent} must say first how far it has the records, and cannot be reached "
                f"({fault}); without it they go again from the start with up.on.mismatch=resend"
            ) from None
        finally:
            await former.close()

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["detail"])[:300]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return body[:100].decode("latin-1")
