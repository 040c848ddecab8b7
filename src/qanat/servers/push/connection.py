"""One push client's socket: frames in, frames out, back-pressure; `login` authenticates it.

Frames are handled in order. One that has to wait (a token that a worker checks, a subscription that looks up its
partitions, an append that waits for the disk) holds those behind it, and reading stops meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from qanat.api.records.refused_batches import RefusedBatches
from qanat.edge.push_dialogue import PushDialogue, Stage, WrongFrameError
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError, QanatError
from qanat.model.ordered_set import OrderedSet
from qanat.security.authentication import ANONYMOUS, Principal
from qanat.security.authorization import Operation
from qanat.servers.push.deliveries import Chunk
from qanat.servers.push.local_cluster import LocalCluster
from qanat.servers.push.login import PushLogin
from qanat.servers.push.producing import PushProducer
from qanat.servers.push.queue import QueueSubscription
from qanat.servers.push.refresh_requests import REFRESH_REQUESTS, answer_refresh
from qanat.servers.push.subscription import LogSubscription
from qanat.wire.push.control import (
    FEATURES,
    VERSION,
    Ack,
    CommitOffset,
    Disconnect,
    Heartbeat,
    Login,
    Mode,
    Subscribe,
    decode_control,
    encode_control,
)
from qanat.wire.push.frames import (
    UNAUTHENTICATED_BYTES,
    UNAUTHENTICATED_FRAMES,
    FrameType,
    PushFrame,
    PushFrameReader,
    encode_frame,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.api.caller import Denial
    from qanat.api.permissions import Permissions
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.push.ports import PushEndpoint, PushHost

UNSENT_BYTES = 128 * 1024
"""Unsent bytes of a connection, so that a heartbeat never waits long behind data."""
_ACK, _DATA, _HEARTBEAT = int(FrameType.ACK), int(FrameType.DATA), int(FrameType.HEARTBEAT)
_SUBSCRIBE, _COMMIT_OFFSET = int(FrameType.SUBSCRIBE), int(FrameType.COMMIT_OFFSET)
_LINGER_S = 1.0
"""How long a client has to read why it is disconnected."""
UNREAD_BYTES = 256 * 1024
"""Answers that a client may leave unread: at more, its frames are not read."""
_UNAUTHENTICATED_UNSENT_BYTES = 4 * 1024
"""The same before authentication: the tokens of an exchange."""


class PushConnection(asyncio.BufferedProtocol):
    """Serves one client; handlers of the API see it as the caller."""

    # Up to thirty attributes take little memory: what hardly ever changes is the class's.
    session_end_ms: int | None = None
    permissions: Permissions | None = None
    last_denial: Denial | None = None
    is_over_inter_broker = is_inter_broker = is_closed_by_broker = is_refused = False
    _lingering: asyncio.TimerHandle | None = None

    def __init__(self, server: PushHost, endpoint: PushEndpoint, principal: Principal) -> None:
        self.server = server
        self._is_reading = True
        self._transport: asyncio.Transport | None = None
        security = endpoint.security
        exchange = None if security is None else security.begin_authentication()
        self._login: PushLogin | None = None
        self._reader = PushFrameReader(server.max_payload_bytes)
        if exchange is not None and security is not None:
            self._login = PushLogin(self, exchange, security.login_guard)
            self._reader.limit(UNAUTHENTICATED_BYTES, UNAUTHENTICATED_FRAMES)
        is_known = exchange is None
        self.dialogue = PushDialogue(server.now_ms(), must_authenticate=not is_known)
        self._waiting: deque[PushFrame] = deque()
        self._held_by: asyncio.Task[None] | None = None
        self._tasks: OrderedSet[asyncio.Task[Any]] = OrderedSet()
        self.can_write = True
        self._version = 0
        """The version that the client named; 0 is the plain dialect."""
        self.partition_counts: dict[str, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.subscription: LogSubscription | QueueSubscription | None = None
        self.producer: PushProducer | None = None
        # What handlers know of a client.
        self.principal = principal if principal is not None else ANONYMOUS
        self.security: ListenerSecurity | None = security if endpoint.is_authorized else None
        self.refused_batches = RefusedBatches()
        self.listener_name, self.listener_protocol = endpoint.name, endpoint.protocol
        self.host = self.peer = self.client = ""
        self.cluster = LocalCluster(server.broker, server.intercepted, self)

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.host = str(address[0]) if address else ""
        self.peer = f"{self.host}:{address[1]}" if address else ""
        is_known = self.dialogue.stage is not Stage.UNAUTHENTICATED
        self._transport.set_write_buffer_limits(UNSENT_BYTES if is_known else _UNAUTHENTICATED_UNSENT_BYTES)
        self.server.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.dialogue.stage is Stage.UNAUTHENTICATED:
            return self.server.scratch[: self._reader.missing_bytes]
        return self.server.scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self.dialogue.stage is Stage.OVER:
            return
        self.dialogue.heard_ms = self.server.now_ms()
        self._waiting.extend(self._reader.received(bytes(self.server.scratch[:nbytes])))
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.dialogue.stage = Stage.OVER
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        self.cluster.close_links()
        if self._lingering is not None:
            self._lingering.cancel()  # It keeps the connection until it is due.
            self._lingering = None
        if self.subscription is not None:
            self.server.keep(self.subscription.close())
            self.subscription = None
        self.server.closed(self)

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        self.regulate()
        if self.subscription is not None:
            self.run(self.subscription.pump)

    # As a caller

    def close(self) -> None:
        """Send what is written, then close."""
        if self.producer is not None:
            self.producer.send_answers()
        self.is_closed_by_broker = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def limit_frames(self, max_bytes: int) -> None:
        """Before authentication a frame has at most 64 KiB, and no more than other listeners accept."""
        self._reader.limit(min(max_bytes, UNAUTHENTICATED_BYTES), UNAUTHENTICATED_FRAMES)

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        self._tasks.add(cast("asyncio.Task[Any]", waiting))
        waiting.add_done_callback(lambda done: self._tasks.discard(cast("asyncio.Task[Any]", done)))

    @property
    def is_plain(self) -> bool:
        return not self._version

    def may_read(self, topic: str) -> bool:
        """Whether the client may read a topic now."""
        return (access := self._access()) is None or access.may_topic(Operation.READ, topic)

    def may_join(self, group: str) -> bool:
        """Whether the client may read with a group now."""
        return (access := self._access()) is None or access.may_group(Operation.READ, group)

    def may_write(self, topic: str) -> bool:
        """Whether the client may write to a topic now."""
        return (access := self._access()) is None or access.may_topic(Operation.WRITE, topic)

    def check_rights(self) -> None:
        """End the subscription where it is not allowed any more."""
        subscription = self.subscription
        if subscription is None or self.dialogue.stage is Stage.OVER:
            return
        for topic in self.partition_counts:
            if not self.may_read(topic):
                self.end("not-authorized", f"topic {topic} may not be read any more")
                return
        if subscription.group and not self.may_join(subscription.group):
            self.end("not-authorized", f"the group {subscription.group} may not be read any more")

    @property
    def due_ms(self) -> int:
        """When it is to be looked after next, if nothing happens before."""
        due_ms = self.dialogue.due_ms
        return due_ms if self.session_end_ms is None else min(due_ms, self.session_end_ms)

    @property
    def wants_attention(self) -> bool:
        """Whether it is to be looked after all the time: groups and leaders may change."""
        return self.subscription is not None and self.subscription.wants_tick

    def attend(self) -> None:
        self.server.attend(self)

    def deliver_late(self) -> None:
        self.server.deliver_late(self)

    def deliver(self) -> None:
        """The late pass: send what may be sent."""
        if self.subscription is not None:
            self.run(self.subscription.pump_late)

    # Sending

    def now_ms(self) -> int:
        return self.server.now_ms()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def room(self) -> int:
        """Bytes that may be written before the socket counts as full."""
        if self._transport is None:
            return 0
        return max(UNSENT_BYTES - self._transport.get_write_buffer_size(), 1)

    def send(self, frame_type: int, frame_id: int, payload: bytes = b"") -> None:
        if self._transport is not None:
            self.dialogue.said_ms = self.server.now_ms()
            self._transport.write(encode_frame(frame_type, frame_id, payload))

    def send_chunks(self, chunks: list[Chunk]) -> None:
        if self._transport is not None:
            self.dialogue.said_ms = self.server.now_ms()
            self._transport.writelines(chunks)

    def end(self, reason: str, message: str) -> None:
        """Say why, and close."""
        if self._transport is None or self.dialogue.stage is Stage.OVER:
            return
        self.dialogue.stage = Stage.OVER
        self._waiting.clear()
        self.server.note_end(self, reason, message)
        if self.producer is not None:
            self.producer.send_answers()
        self.send(FrameType.DISCONNECT, 0, encode_control(Disconnect(reason[:100], message[:1000])))
        self.close()
        # A client that reads nothing would keep its partitions: the transport waits for it without end.
        self._lingering = asyncio.get_running_loop().call_later(_LINGER_S, self.abort)

    def run(self, act: Callable[[], None]) -> None:
        """Do something outside the handling of a frame; a bug ends this connection, not the broker."""
        try:
            act()
        except Exception as fault:  # noqa: BLE001 - as above
            self._fail(fault)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that ends with this client."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fail(fault)

    def _end_by(self, fault: Exception) -> None:
        """End because of what a frame, or the work that it began, has raised."""
        if isinstance(fault, WrongFrameError):
            self.end(fault.reason, str(fault))
        elif isinstance(fault, QanatError):
            self.end("malformed" if isinstance(fault, MalformedMessageError) else _reason(fault.code), str(fault))
        else:
            self._fail(fault)

    def _fail(self, fault: BaseException) -> None:
        self.server.note_bug(self, fault)
        self.end("broker-fault", "the broker cannot serve this client; its log says why")

    # Frames

    def _advance(self) -> None:
        """Handle frames until one has to wait."""
        while self._waiting and self._held_by is None and self.dialogue.stage is not Stage.OVER:
            frame = self._waiting.popleft()
            try:
                self.dialogue.check(frame.type, frame.id)
                work = self._handle(frame)
            except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
                self._end_by(fault)
                return
            if work is not None:
                self.hold(work)
        if self.producer is not None:
            self.producer.flush()
        if self._held_by is None and self._reader.fault is not None:
            self.end("malformed", str(self._reader.fault))
        self.regulate()

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Handle no frame before this is done; after what is held already."""
        before = self._held_by
        self._held_by = self.spawn(self._hold(work, before))
        self._held_by.add_done_callback(lambda _: work.close())  # The client may be gone before it has begun.
        self.regulate()

    async def _hold(self, work: Coroutine[Any, Any, None], before: asyncio.Task[None] | None = None) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            await work
        except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._end_by(fault)
        finally:
            if self._held_by is asyncio.current_task():
                self._held_by = None
        self._advance()

    def regulate(self) -> None:
        """Read, or stop reading while frames wait or a producer has too much unacknowledged."""
        if self._transport is None or self._transport.is_closing():
            return
        is_busy = self._held_by is not None or (self.producer is not None and self.producer.is_full)
        if is_busy is self.dialogue.is_listening:
            self.dialogue.listen(is_listening=not is_busy, now_ms=self.server.now_ms())
        must_read = not is_busy and (self.can_write or not self._owes_much)
        if must_read is not self._is_reading:
            self._is_reading = must_read
            if must_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    @property
    def _owes_much(self) -> bool:
        """Whether the client leaves so many answers unread that no more of its frames are answered.

        A subscriber has records to read as well; what they may take is decided where they are read.
        """
        if self.dialogue.stage is Stage.UNAUTHENTICATED or self._transport is None:
            return True
        limit = UNREAD_BYTES + (self.server.max_payload_bytes if self.dialogue.stage is Stage.SUBSCRIBED else 0)
        return self._transport.get_write_buffer_size() > limit

    def _handle(self, frame: PushFrame) -> Coroutine[Any, Any, None] | None:
        kind = frame.type
        if kind == _ACK:
            self._acknowledged(frame)
        elif kind == _DATA:
            return self._produced(frame)
        elif kind == _HEARTBEAT:
            return self._heartbeat(frame)
        elif kind == _SUBSCRIBE:
            return self._subscribe(frame.id, decode_control(Subscribe, frame.payload))
        elif kind == _COMMIT_OFFSET:
            self._commit(frame)
        else:
            self.close()  # DISCONNECT: the client says goodbye.
        return None

    def _acknowledged(self, frame: PushFrame) -> None:
        assert self.subscription is not None, "the dialogue allows no ACK before SUBSCRIBE"
        ack = decode_control(Ack, frame.payload) if len(frame.payload) else None
        self.subscription.acknowledge(frame.id, ack)

    def _commit(self, frame: PushFrame) -> None:
        if not isinstance(self.subscription, LogSubscription):
            raise WrongFrameError("no-group", "COMMIT_OFFSET needs a subscription in mode log, with a group")
        self.subscription.commit(frame.id, decode_control(CommitOffset, frame.payload))

    def _produced(self, frame: PushFrame) -> Coroutine[Any, Any, None] | None:
        if self.producer is None:
            self.producer = PushProducer(self)
        return self.producer.take(frame)

    # Who the client is

    def _heartbeat(self, frame: PushFrame) -> Coroutine[Any, Any, None] | None:
        if not len(frame.payload):
            if frame.id:
                self.send(FrameType.ACK, frame.id)
            return None
        said: Heartbeat | Login
        if self.dialogue.stage is Stage.UNAUTHENTICATED:
            said = decode_control(Login, frame.payload)
        else:
            said = decode_control(Heartbeat, frame.payload)
        self.client = said.client or self.client
        self._version = max(self._version, said.v)
        if said.token is not None or said.mechanism:
            if self._login is None:
                raise WrongFrameError("no-authentication", "this listener asks for no authentication")
            return self._login.take(frame.id, said)
        if isinstance(said, Login):
            raise WrongFrameError("not-authenticated", "name a mechanism and send a token first")
        return self._greet(frame.id, said)

    async def _greet(self, frame_id: int, said: Heartbeat) -> None:
        """Answer a heartbeat: with the version, a producer's topics, or who is connected."""
        if said.topics:
            await self._look_up(tuple(said.topics))
            self.producer = self.producer or PushProducer(self)
            self.producer.flush()
            await self.producer.open(tuple(said.topics), said.producer)
        if said.ask in REFRESH_REQUESTS:
            answer = await answer_refresh(self.server.broker, self.cluster, self._access(), said)
            self.send(FrameType.ACK, frame_id, encode_control(answer))
            return
        consumers = []
        if said.ask == "consumers":
            if not self._may_describe():
                raise WrongFrameError("not-authorized", "DESCRIBE on the cluster is needed to list consumers")
            consumers = await self.server.consumers()
        if frame_id:
            answer = Ack(
                v=VERSION,
                features=list(FEATURES),
                partitions=self.partition_counts,
                producer=None if self.producer is None else self.producer.identity,
                consumers=consumers,
            )
            self.send(FrameType.ACK, frame_id, encode_control(answer))

    def _access(self) -> AccessCheck | None:
        security = self.security
        return None if security is None else security.access(self.server.broker, self, 0)

    def _may_describe(self) -> bool:
        return (access := self._access()) is None or access.may_cluster(Operation.DESCRIBE)

    def authenticated(self, principal: Principal, lifetime_ms: int) -> None:
        """The client is who it says, for so long; 0 has no end."""
        self.principal = principal
        self.session_end_ms = self.now_ms() + lifetime_ms if lifetime_ms else None
        self._reader.limit(self.server.max_payload_bytes)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(UNSENT_BYTES)
        self.dialogue.authenticated()
        self.server.authenticated(self)

    # Subscribing

    async def _subscribe(self, frame_id: int, wanted: Subscribe) -> None:
        topics = wanted.wanted
        if not topics:
            raise WrongFrameError("malformed", "SUBSCRIBE names no topic")
        mode = wanted.chosen_mode
        if mode is not Mode.ALL and not wanted.group:
            raise WrongFrameError("malformed", f"mode {mode.value} needs a group")
        for topic in topics:
            if not self.may_read(topic):
                raise WrongFrameError("not-authorized", f"topic {topic} may not be read")
        self._version = max(self._version, wanted.v)
        self.client = wanted.client or self.client
        await self._look_up(topics)
        if self.dialogue.stage is Stage.OVER:
            return  # It was ended meanwhile, as `silent`.
        self.dialogue.subscribed()
        counts, ids = self.partition_counts, self.topic_ids
        answer = Ack(v=VERSION, features=list(FEATURES), partitions=counts, topic_ids=ids, mode=mode)
        self.send(FrameType.ACK, frame_id, b"" if self.is_plain else encode_control(answer))
        if mode is Mode.LOG and wanted.member and self.may_join(wanted.group):
            self.server.supersede(wanted.group, wanted.member)
        make = QueueSubscription if mode is Mode.QUEUE else LogSubscription
        self.subscription = make(self, wanted)
        self.attend()
        self.server.guard(self)
        await self.subscription.start()

    async def _look_up(self, topics: tuple[str, ...]) -> None:
        may_create = self.server.broker.settings.auto_create_topics_enable
        for topic in topics:
            found = await self.cluster.topic(topic, self.cluster.deadline(), may_create=may_create)
            self.partition_counts[topic] = len(found.leaders)
            self.topic_ids[topic] = self.cluster.topic_id(topic)


def _reason(code: ErrorCode) -> str:
    return code.name.lower().replace("_", "-")
