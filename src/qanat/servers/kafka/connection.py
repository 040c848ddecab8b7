# cython: language_level=3, annotation_typing=False
"""One client's connection: frames in, answers out in order, and never more in memory than the limits allow.

A handler answers at once (a list of chunks), parks its answer (a future), or must finish something slow before the
next request is handled (a coroutine). Nothing polls, and an answer at once needs no task.

A client that sends many requests at once has as many handled in a turn of the loop as `REQUESTS_PER_TURN` says.

Back-pressure: reading stops while the client does not take its answers, while too many of its requests or their bytes
are unanswered, or while all connections together hold more request bytes than the broker allows (`connection_limits`).

A client that waits for each answer sends one frame in a read, with nothing outstanding: the fast path
(`_answer_single`). Compiled and interpreted like `log.partition_log`.
"""

from __future__ import annotations

import asyncio
import mmap
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, cast

from qanat.api.records.refused_batches import RefusedBatches
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.errors import QanatError
from qanat.model.ordered_set import OrderedSet
from qanat.security.authentication import ANONYMOUS
from qanat.security.sasl_exchange import SaslExchange
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.wire.frames import FrameReader
from qanat.wire.kafka.writing import Chunk

if TYPE_CHECKING:
    from qanat.api.caller import Denial
    from qanat.api.permissions import Permissions
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.login_guard import LoginGuard

Answer = list[Chunk] | None
"""None is no answer at all: Produce with acks=0."""
Parked = asyncio.Future[Answer]


class DeferredAnswer(ABC):
    """A parked answer without a future: it is sent in the turn of the loop in which it is made."""

    __slots__ = ()

    @abstractmethod
    def then(self, send: Callable[[Answer | Parked | DeferredAnswer], None]) -> None:
        """Call `send` once: with the answer, or with what it waits for next."""


class Cancellable(Protocol):
    """Work for one client alone, of no use when that client is gone."""

    def cancel(self) -> object: ...


Outcome = Answer | Parked | DeferredAnswer | Coroutine[Any, Any, "Answer | Parked"]
"""A future is a parked answer; a coroutine holds the requests behind it, and may then park."""


def _ignore(connection: KafkaConnection, reason: str = "") -> None:
    pass


def lazy_buffer(size: int) -> mmap.mmap:
    """A buffer that takes memory only where it is written to: clients may announce much and send little."""
    return mmap.mmap(-1, size)


REQUESTS_PER_TURN = 512
"""Most requests of one client that are handled before the others have their turn: a read may bring three thousand."""
ANSWERS_PER_WRITE = 64
"""Most small answers in one write; their requests came together, so none waits long for the last."""


class _Slot:
    """A place in the queue of answers."""

    __slots__ = ("answer", "is_done", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.answer: Answer = None
        self.is_done = False


NEVER_S = float("inf")
TRICKLE_BYTES = 4096
"""Most bytes read from a client that could not be paused before the limit was reached."""


class KafkaConnection:
    """Serves one client; `handle` gets each frame and this connection.

    It does what a protocol of asyncio does; `KafkaProtocol` is one.
    """

    def __init__(
        self,
        handle: Callable[[memoryview, KafkaConnection], Outcome],
        limits: ConnectionLimits,
        on_close: Callable[[KafkaConnection], None],
        on_fault: Callable[[KafkaConnection, BaseException], None],
    ) -> None:
        self._handle = handle
        self._limits = limits
        self._frames = FrameReader(limits.max_request_bytes, limits.rooms)
        self._transport: asyncio.Transport | None = None
        self._begun_bytes = 0
        """Memory of an incomplete frame, as noted in the limits."""
        self._unanswered_bytes = 0
        self._can_write = True
        self._on_close = on_close
        self._on_fault = on_fault
        self._waiting: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._unsent: list[Chunk] = []
        """Small answers of this turn of the loop, sent as one write: a write costs more than making an answer."""
        self._held_by: asyncio.Task[Answer | Parked] | None = None
        self._cancellables: OrderedSet[Cancellable] = OrderedSet()
        """Work that ends with this client."""
        self._is_scheduled = False
        """Whether requests are handled in the next turn of the loop."""
        self.is_reading = True
        self.conversation: SaslExchange | None = None
        """The authentication that the client still owes; None where it is done or not required."""
        self.session: SaslExchange | None = None
        """The authentication that was done last; None where it is not required."""
        self.session_end_s = NEVER_S
        """When the client has to have authenticated again, by `perf_counter`."""
        self.renewal: SaslExchange | None = None
        """The authentication that is to replace it, from SaslHandshake on; requests are served meanwhile."""
        self.login_guard: LoginGuard | None = None
        """What limits failed logins; None where the client need not authenticate."""
        self.principal = ANONYMOUS
        self.security: ListenerSecurity | None = None
        """What decides about its requests: its endpoint's security, where that has an authorizer."""
        self.permissions: Permissions | None = None
        """What the principal may do, where an authorizer decides."""
        self.last_denial: Denial | None = None
        self.refused_batches = RefusedBatches()
        self.is_closed_by_broker = False
        """Whether the broker closed it, as when it stops."""
        self.listener_name = ""
        """The name of the listener that it came over."""
        self.listener_protocol = ""
        """The security protocol of that listener."""
        self.is_over_inter_broker = False
        """Whether it came over the inter-broker listener."""
        self.is_inter_broker = False
        """Whether a broker is at its other end: it came over that listener and may act as one."""
        self.on_refused: Callable[[KafkaConnection, str], None] = _ignore
        """Called with the reason when the client fails to authenticate."""
        self.on_authenticated: Callable[[KafkaConnection], None] = _ignore
        """Called when the client is authenticated."""
        self.on_renewed: Callable[[KafkaConnection], None] = _ignore
        """Called when the client has authenticated again."""
        self.on_expired: Callable[[KafkaConnection], None] = _ignore
        """Called when it is closed because it did not authenticate again in time."""
        self.is_refused = False
        """Set before the transport is there, where max.connections is reached: it is closed at once."""
        self.peer = ""
        self.host = ""
        self.client_id = ""

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's behaves as one, but is none by type.
        address = transport.get_extra_info("peername")
        self.host = str(address[0]) if address else ""
        self.peer = f"{self.host}:{address[1]}" if address else ""
        self._transport.set_write_buffer_limits(self._limits.max_unsent_bytes)
        if self.is_refused:
            self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._frames.buffer()
        limits = self._limits
        if limits.inflight_bytes >= limits.max_inflight_bytes and not limits.may_finish(self):
            return buffer[:TRICKLE_BYTES]
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._frames.received(nbytes)
        except QanatError as fault:
            self._abort(fault)
            return
        held = self._frames.held_bytes
        # No earlier request is outstanding.
        is_idle = not self._unanswered_bytes and not self._begun_bytes and self._can_write
        limits = self._limits
        is_full = limits.inflight_bytes >= limits.max_inflight_bytes
        if is_idle and not held and len(frames) == 1 and self._transport is not None and not is_full:
            self._answer_single(frames[0])
        else:
            self._received(frames, held)

    def _answer_single(self, frame: memoryview) -> None:
        """Answer a single frame; one that is answered at once never counts as unanswered."""
        try:
            outcome = self._handle(frame, self)
        except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._abort(fault)
            return
        if isinstance(outcome, list):
            if self._transport is not None:
                self._transport.writelines(outcome)
        else:
            self._defer(frame, outcome)

    def _received(self, frames: list[memoryview], held: int) -> None:
        """Take in several frames, a part of one, or none."""
        if frames:
            size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
            self._unanswered_bytes += size
            self._limits.inflight_bytes += size
            if held or self._begun_bytes:
                self._note_begun(held, is_another=True)
            self._waiting.extend(frames)
            self._advance()
        else:
            self._note_begun(held, is_another=False)
            if self._limits.is_full:
                self.regulate()

    def _defer(self, frame: memoryview, outcome: Outcome) -> None:
        """Keep a place for the answer to a single frame, which comes later."""
        slot = _Slot(len(frame))
        if self._transport is not None:
            self._unanswered_bytes += slot.size
            self._limits.inflight_bytes += slot.size
        self._slots.append(slot)
        self._take(slot, outcome)
        self._send_small()
        self.regulate()

    def _note_begun(self, held: int, *, is_another: bool) -> None:
        before, self._begun_bytes = self._begun_bytes, held
        self._limits.note_half(self, before, held, is_another=is_another)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._frames.release()
        if self._held_by is not None:
            self._held_by.cancel()
        for waiting in list(self._cancellables):
            waiting.cancel()
        self._waiting.clear()
        self._slots.clear()
        self._note_begun(0, is_another=True)
        held, self._unanswered_bytes = self._unanswered_bytes, 0
        self._limits.forget(self, held)
        self._on_close(self)

    def pause_writing(self) -> None:
        self._can_write = False
        self.regulate()

    def resume_writing(self) -> None:
        self._can_write = True
        self._advance()

    # Requests

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def close(self) -> None:
        """Send what is written, then close."""
        self.is_closed_by_broker = True
        self._send_small()
        if self._transport is None:
            self.is_refused = True  # It was just accepted.
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once: unsent answers are lost, unhandled requests are dropped."""
        if self._transport is not None:
            unseen_bytes = sum(map(len, self._waiting))
            self._waiting.clear()
            self._release(unseen_bytes)
            self._transport.abort()

    def cut_off(self, fault: BaseException) -> None:
        """Close at once and report the fault."""
        self._abort(fault)

    @property
    def begun_bytes(self) -> int:
        """Bytes received of an incomplete frame."""
        return self._frames.begun_bytes

    @property
    def missing_bytes(self) -> int:
        """Memory that the rest of that frame will take."""
        return self._frames.missing_bytes

    def limit_frames(self, max_bytes: int) -> None:
        """Accept frames of at most this size from now on."""
        self._frames.limit(max_bytes)

    def add_cancellable(self, work: Cancellable) -> None:
        """Cancel this work when the client disconnects, unless it is removed before."""
        self._cancellables.add(work)

    def remove_cancellable(self, work: Cancellable) -> None:
        self._cancellables.discard(work)

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        """Cancel this future when the client disconnects: it has no effect but the answer."""
        self._cancellables.add(waiting)
        if isinstance(waiting, SyncFuture):
            waiting.on_settled(self._cancellables.discard)
        else:
            waiting.add_done_callback(self._cancellables.discard)

    def _advance(self) -> None:
        """Handle waiting requests, as far as the limits allow now."""
        waiting, slots = self._waiting, self._slots
        left = REQUESTS_PER_TURN
        while waiting and self._held_by is None and self._may_continue():
            if not left:
                self._schedule()
                break
            left -= 1
            frame = waiting.popleft()
            try:
                outcome = self._handle(frame, self)
            except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
                self._release(len(frame))
                self._abort(fault)
                return
            if isinstance(outcome, list) and not slots:
                # Answered at once, with no earlier answer outstanding: nearly all requests take this branch.
                self._release(len(frame))
                self._send(outcome)
            else:
                slot = _Slot(len(frame))
                slots.append(slot)
                self._take(slot, outcome)
        self._send_small()
        self.regulate()

    def _schedule(self) -> None:
        """Handle more requests after what else the loop has to do."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        self._advance()

    def _release(self, size: int) -> None:
        self._unanswered_bytes -= size
        self._limits.release(size)

    def _may_continue(self) -> bool:
        return self._can_write and len(self._slots) < self._limits.max_unanswered and self._transport is not None

    def _take(self, slot: _Slot, outcome: Outcome) -> None:
        if outcome is None or isinstance(outcome, list):
            self._finish(slot, outcome)
        elif isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(lambda future: self._on_parked(slot, future))
        elif isinstance(outcome, DeferredAnswer):
            outcome.then(lambda made: self._on_deferred(slot, made))
        else:
            assert isinstance(outcome, Coroutine)
            self._held_by = asyncio.get_running_loop().create_task(outcome)
            self._held_by.add_done_callback(lambda task: self._on_held(slot, task))

    def _on_parked(self, slot: _Slot, future: Parked) -> None:
        if not self._is_lost(future):
            self._finish(slot, future.result())
            self._advance()

    def _on_deferred(self, slot: _Slot, outcome: Outcome) -> None:
        if self._transport is not None:
            self._take(slot, outcome)
            self._advance()

    def _on_held(self, slot: _Slot, task: asyncio.Future[Answer | Parked]) -> None:
        self._held_by = None
        if not self._is_lost(task):
            self._take(slot, task.result())
            self._advance()

    def _is_lost(self, future: asyncio.Future[Any]) -> bool:
        """Whether there is no answer to send, or no client to send it to."""
        if future.cancelled() or (fault := future.exception()) is None:
            return future.cancelled() or self._transport is None
        self._abort(fault)
        return True

    # Answers

    def _finish(self, slot: _Slot, answer: Answer) -> None:
        slot.answer = answer
        slot.is_done = True
        while self._slots and self._slots[0].is_done:
            done = self._slots.popleft()
            self._release(done.size)
            if done.answer is not None:
                self._send(done.answer)

    def _send(self, answer: list[Chunk]) -> None:
        if len(answer) == 1 and len(self._unsent) < ANSWERS_PER_WRITE:
            self._unsent.append(answer[0])
            return
        self._send_small()
        if self._transport is not None:
            self._transport.writelines(answer)

    def _send_small(self) -> None:
        unsent = self._unsent
        if unsent:
            self._unsent = []
            if self._transport is not None:
                self._transport.writelines(unsent)

    def regulate(self) -> None:
        """Read or pause reading, as the limits say."""
        limits, transport = self._limits, self._transport
        may_read = self._can_write and not self._waiting and self._unanswered_bytes < limits.max_connection_bytes
        is_full = limits.inflight_bytes >= limits.max_inflight_bytes
        is_starved = is_full and may_read and not limits.may_read(self)
        if is_starved:
            may_read = False
        elif may_read == self.is_reading:
            return
        if transport is None or transport.is_closing():
            return
        if may_read and not self.is_reading:
            transport.resume_reading()
            limits.starved.pop(self, None)
        elif not may_read and self.is_reading:
            transport.pause_reading()
        self.is_reading = may_read
        if is_starved:
            limits.starve(self)

    def _abort(self, fault: BaseException) -> None:
        """Close at once: what the client sends after this can be neither decoded nor trusted."""
        self._on_fault(self, fault)
        self._send_small()
        if self._transport is not None:
            self._transport.abort()


class KafkaProtocol(KafkaConnection, asyncio.BufferedProtocol):
    """A connection as a protocol of asyncio, which looks for that class."""
