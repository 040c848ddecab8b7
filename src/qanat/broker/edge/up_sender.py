"""One partition of an outbox: what goes up next, as `edge.up_flow` decides, and what the parent's answers mean.

Rule 1: a partition is bound to one topic of one parent before the first record leaves, durably. Another topic's mark
        says nothing of what the bound one has.
Rule 2: where a node gets another parent, the former one is asked first how far it has the records: it is fenced by
        that, and takes no more.
Rule 3: nothing is deleted here but what a durable mark covers.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import TYPE_CHECKING, NoReturn, Protocol

from qanat.broker.edge.edge_state import EdgeState, UpBinding
from qanat.broker.edge.up_chunks import UpChunk, chunk_of
from qanat.broker.replicas.committed_reads import read_cold, read_here
from qanat.edge import up_flow
from qanat.edge.backoff import Backoff
from qanat.edge.topology import Parent
from qanat.edge.up_flow import (
    AskFormer,
    AskMark,
    Bind,
    Bound,
    Idle,
    Keep,
    Mark,
    Name,
    Outbox,
    TopicIsOther,
    Upload,
)
from qanat.model.errors import QanatError
from qanat.telemetry.events import log_event
from qanat.wire.up_messages import BeginUp, NamedUpload, UpBegun, UpRecords, UpStream, UpTaken

if TYPE_CHECKING:
    from qanat.broker.edge.edge_host import EdgeHost
    from qanat.broker.replicas.partition import Partition

CHUNK_BYTES = 1024 * 1024
"""Records of one transaction of the parent, unless a single batch is larger."""
_REFUSED_MS_MAX = 10_000
_UNBOUNDED = 2**62


class UpState(Enum):
    """What a partition does."""

    IDLE = "IDLE"
    """The parent has everything."""
    SENDING = "SENDING"
    WAITING = "WAITING"
    """A request failed; it is repeated."""
    STOPPED = "STOPPED"
    """The operator must decide: the parent's mark does not fit."""


class UpRefusedError(QanatError):
    """The parent answered, and refused."""


class UpStoppedError(UpRefusedError):
    """The operator must decide."""


class ParentLink(Protocol):
    """Requests to one parent."""

    async def begin(self, asked: BeginUp) -> UpBegun: ...

    async def take(self, head: UpRecords, content: memoryview) -> UpTaken: ...

    @property
    def piece_bytes(self) -> int:
        """Most bytes of one request."""
        ...


class UpSender:
    """The way up of one partition that this broker leads."""

    def __init__(self, broker: EdgeHost, partition: Partition, topic_id: str, instance: str, state: EdgeState) -> None:
        assert partition.outbox is not None, f"{partition.at} is no outbox"
        self._broker = broker
        self.partition = partition
        self.at = partition.at
        self.target = partition.outbox.target
        self._state = state
        self._stream = UpStream(instance, topic_id, partition.at.partition, self.target)
        self._outbox = self._fresh()
        self._binding: UpBinding | None = None
        self._is_resending = False
        self._chunk: UpChunk | None = None
        self.fault = ""
        """Why the last request did not succeed; empty where it did."""
        self.is_stopped = False
        self.next_at_ms = 0
        self.backoff = Backoff(random.random, longest_ms=_REFUSED_MS_MAX)
        self.sent_records = self.sent_bytes = 0

    def _fresh(self) -> Outbox:
        log = self.partition.log
        return Outbox(log.log_start_offset, self._end, _UNBOUNDED, chunk_records=_UNBOUNDED)

    @property
    def _end(self) -> int:
        return max(self.partition.end_of_reading(is_committed=True), self.partition.log.log_start_offset)

    @property
    def lag_records(self) -> int:
        """Offsets that the parent does not have yet."""
        return self._end - self.partition.log.log_start_offset

    @property
    def state(self) -> UpState:
        if self.is_stopped:
            return UpState.STOPPED
        if self.fault:
            return UpState.WAITING
        return UpState.SENDING if self.lag_records else UpState.IDLE

    @property
    def is_over(self) -> bool:
        """Whether this object is for a leadership or a target that is no more."""
        room = self.partition.outbox
        return self.partition.is_retired or room is None or room.target != self.target

    def is_due(self, now_ms: int) -> bool:
        return self.next_at_ms <= now_ms and self.lag_records > 0 and self.partition.knows_high_watermark

    # One request

    async def step(self, parent: Parent, link: ParentLink, former: FormerParents) -> None:
        """Do what is next; raises where that fails."""
        self._outbox.appended(self._end)
        match self._outbox.next_act():
            case AskMark():
                await self._ask(parent, link, former)
            case Upload(first=first, end=end):
                await self._upload(link, first, end)
            case Name(named):
                chunk = self._chunk
                assert chunk is not None, "what was uploaded is kept until it is named"
                said = NamedUpload(named.topic_id, named.first, named.end, named.epoch, chunk.records)
                head = UpRecords(self._stream, chunk.name, chunk.position, said)
                taken = await link.take(head, memoryview(chunk.content)[chunk.position :])
                if taken.mark is None:
                    raise UpRefusedError("the parent's answer has no mark: it should be a Qanat broker of this version")
                self.sent_records += chunk.records
                self.sent_bytes += len(chunk.content)
                await self._marked(Mark(named.topic_id, taken.mark, named.epoch))
            case Idle(stopped) if stopped:
                self._stop(stopped)
            case Idle():
                pass
        self.fault, self.is_stopped = "", False

    def failed(self, fault: QanatError, next_at_ms: int) -> None:
        """A step has failed: whatever it did, the parent's mark will say."""
        reason = str(fault)
        if reason != self.fault:
            is_stopped = isinstance(fault, UpStoppedError)
            what = "outbox stopped: its operator must decide" if is_stopped else "records do not go up"
            log_event(what, level="error" if is_stopped else "warning", partition=str(self.at), reason=reason)
        self.fault, self.is_stopped = reason, isinstance(fault, UpStoppedError)
        self.next_at_ms = next_at_ms
        self._outbox = self._fresh()
        self._chunk = None

    def restart(self) -> None:
        """There is another parent, or it answers again: do not wait any longer."""
        self.next_at_ms = 0
        self._outbox = self._fresh()
        self._chunk = None

    async def _upload(self, link: ParentLink, first: int, end: int) -> None:
        """Send the next piece; the last one goes with the name."""
        if self._chunk is None:
            self._chunk = await self._read(first)
        chunk = self._chunk
        if chunk is None:
            return
        if len(chunk.content) - chunk.position > link.piece_bytes:
            piece = memoryview(chunk.content)[chunk.position : chunk.position + link.piece_bytes]
            taken = await link.take(UpRecords(self._stream, chunk.name, chunk.position), piece)
            if taken.size <= chunk.position:
                raise UpRefusedError(
                    f"the parent has {taken.size} bytes of an upload of which {chunk.position} were sent"
                )
            chunk.position = min(taken.size, len(chunk.content))
        if len(chunk.content) - chunk.position <= link.piece_bytes:
            self._outbox.uploaded(Upload(chunk.first, chunk.end))

    async def _read(self, first: int) -> UpChunk | None:
        found = read_here(self.partition, first, CHUNK_BYTES)
        if found is None:
            found = await read_cold(self.partition, first, CHUNK_BYTES)
        return chunk_of(found.views, found.aborted, first, CHUNK_BYTES)

    async def _marked(self, mark: Mark) -> None:
        """The parent's durable mark: everything before it goes here."""
        self._chunk = None
        start = self._outbox.marked(mark)
        log = self.partition.log
        if start > log.log_start_offset:
            log.advance_log_start(min(start, log.high_watermark))
            assert self.partition.outbox is not None, "a step is for an outbox"
            self.partition.outbox.freed()
            await self._broker.runtime.expire(log)

    # The mark

    async def _ask(self, parent: Parent, link: ParentLink, former: FormerParents) -> None:
        start = self.partition.log.log_start_offset
        if self._binding is None:
            self._binding = await self._state.binding(self._stream.outbox_id, self._stream.partition)
        kept = self._binding
        base = start if kept is None else kept.base
        settled = kept.settled if kept is not None and kept.parent == parent.node else -1
        begun = await link.begin(BeginUp(self._stream, base, self._is_resending, settled))
        bound = None if kept is None else Bound(f"{kept.parent} {kept.url}", kept.topic_id, kept.base)
        match up_flow.binding(bound, f"{parent.node} {parent.url}", begun.topic_id, start, is_resent=self._resends):
            case Keep():
                await self._take_mark(parent, begun)
            case Bind(base=bound_base):
                await self._bind(parent, begun, bound_base, settled)
                if bound_base == base:
                    await self._take_mark(parent, begun)  # Otherwise the next step asks with the new base.
            case AskFormer():
                assert kept is not None, "only a bound outbox has a former parent"
                await self._bind(parent, begun, await self._settle(parent, kept, former), begun.end)
            case TopicIsOther():
                self._stop(
                    f"topic {self.target} of {parent.node} is another one than before: it was deleted and made again. "
                    f"It gets what is still here, from offset {start} on, with up.on.mismatch=resend"
                )

    async def _take_mark(self, parent: Parent, begun: UpBegun) -> None:
        log = self.partition.log
        is_unfit = not log.log_start_offset <= begun.end <= self._end
        if is_unfit and self._resends and not self._is_resending:
            self._is_resending = True
            await self._bind(parent, begun, log.log_start_offset)
            return  # The next step asks again, and says so.
        self._is_resending = False
        await self._marked(Mark(begun.topic_id, begun.end, begun.epoch))
        act = self._outbox.next_act()
        if isinstance(act, Idle) and act.stopped:
            self._stop(act.stopped)

    @property
    def _resends(self) -> bool:
        return self._broker.current_settings.topic(self.at.topic).is_resent

    async def _bind(self, parent: Parent, begun: UpBegun, base: int, settled: int = -1) -> None:
        binding = UpBinding(parent.node, parent.url, begun.topic_id, base, settled)
        await self._state.keep_binding(self._stream.outbox_id, self._stream.partition, binding)
        self._binding = binding

    async def _settle(self, parent: Parent, kept: UpBinding, former: FormerParents) -> int:
        """From where on another parent gets records; raises where the former one cannot say how far it has them."""
        start = self.partition.log.log_start_offset
        found = await former.settle(kept, BeginUp(self._stream, kept.base, settled=kept.settled))
        if found.topic_id != kept.topic_id or not start <= found.end <= self._end:
            self._stop(
                f"{kept.parent} cannot say any more how far it has the records, since its topic {self.target} was "
                f"made again or restored: {parent.node} gets what is still here, from offset {start} on, with "
                "up.on.mismatch=resend"
            )
        self.partition.log.advance_log_start(found.end)
        return found.end

    def _stop(self, reason: str) -> NoReturn:
        raise UpStoppedError(reason)


class FormerParents(Protocol):
    """Parents that the node had before."""

    async def settle(self, bound: UpBinding, asked: BeginUp) -> UpBegun:
        """How far a former parent has the records; it takes no more."""
        ...
