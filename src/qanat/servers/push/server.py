"""The push server of a node: its connections, their clock, and who is connected.

A timer, twice a second, looks after the connections that may be due: silent ones are dropped, idle ones get a
heartbeat, and sessions that have ended are closed. Where groups or leaders are to be looked at, a connection has its
turn every time, and each one where the metadata has changed. Permissions have a watch of their own (`rights`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from qanat.edge.push_dialogue import Stage
from qanat.model.ordered_set import OrderedSet
from qanat.servers.push.connected_consumers import connected_consumers
from qanat.servers.push.connection import PushConnection
from qanat.servers.push.fresh_batches import FreshBatches
from qanat.servers.push.rights import RightsWatch
from qanat.servers.push.shared_payloads import SharedPayloads
from qanat.servers.push.subscription import LogSubscription
from qanat.servers.push.turns import LatePass, Wheel
from qanat.servers.request_accounting import RequestAccounting
from qanat.telemetry.events import RateLimitedEvent, failure
from qanat.wire.push.control import ConnectedConsumer
from qanat.wire.push.frames import UNAUTHENTICATED_BYTES, FrameType

if TYPE_CHECKING:
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker
    from qanat.security.authentication import Principal
    from qanat.servers.push.ports import PushEndpoint

TICK_S = 0.5
_LOOKED_AFTER_AT_ONCE = 200
"""Of ten thousand connections, that many at a time: together they would delay every record by tens of milliseconds."""
_SCRATCH_BYTES = 256 * 1024
_FINISH_S = 5.0
"""How long subscriptions may take to commit and to leave their groups when the broker stops."""


class PushServer:
    """Serves push connections; belongs to one event loop."""

    def __init__(self, broker: Broker, intercepted: Intercepted) -> None:
        self.broker = broker
        self.intercepted = intercepted
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        """Where every connection receives: its bytes are copied out before another one reads."""
        self.payloads = SharedPayloads()
        self.fresh = FreshBatches()
        self.accounting = RequestAccounting(
            "push produce", broker.counters.pushed, broker.current_settings, broker.log_slow_request
        )
        self._time_s: Callable[[], float] | None = None
        self._connections: OrderedSet[PushConnection] = OrderedSet()
        self._unauthenticated: dict[PushConnection, int] = {}
        """When each connection came that has not authenticated yet, oldest first."""
        self._kept: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._timer: asyncio.TimerHandle | None = None
        self._due: list[PushConnection] = []
        """Connections that have not had their turn."""
        self._turns = 1
        self._wheel: Wheel[PushConnection] = Wheel()
        self._attended: OrderedSet[PushConnection] = OrderedSet()
        """Connections that have their turn with the next tick, whatever the wheel says."""
        self._late: LatePass[PushConnection] = LatePass(PushConnection.deliver)
        self._rights: RightsWatch[PushConnection] = RightsWatch(self._check_rights)
        self._revision = -1
        """The revision of the metadata that all connections have seen."""
        self._log_ended = RateLimitedEvent("push connection ended by the broker", level="info")
        self._log_refused = RateLimitedEvent("authentication failed")
        self.max_payload_bytes = broker.settings.socket_request_max_bytes + UNAUTHENTICATED_BYTES

    def now_ms(self) -> int:
        if self._time_s is None:
            self._time_s = asyncio.get_running_loop().time
        return int(self._time_s() * 1000)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def accept(self, endpoint: PushEndpoint, principal: Principal) -> PushConnection:
        return PushConnection(self, endpoint, principal)

    # Told by connections

    def opened(self, connection: PushConnection) -> None:
        self._connections.add(connection)
        if connection.dialogue.stage is Stage.UNAUTHENTICATED:
            limit = self.broker.current_settings.security.max_unauthenticated_connections
            if len(self._unauthenticated) >= limit:
                oldest = next(iter(self._unauthenticated))
                del self._unauthenticated[oldest]
                self.broker.counters.unauthenticated_closed += 1
                oldest.abort()
            self._unauthenticated[connection] = self.now_ms()
        self._wheel.put(connection, connection.due_ms)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def authenticated(self, connection: PushConnection) -> None:
        self._unauthenticated.pop(connection, None)
        self._wheel.put(connection, connection.due_ms)

    def attend(self, connection: PushConnection) -> None:
        """Look after a connection with the next tick."""
        self._attended.add(connection)

    def guard(self, connection: PushConnection) -> None:
        """End its subscription soon after the rules do not allow it any more."""
        if connection.security is not None and connection.security.authorizer is not None:
            self._rights.add(connection, connection.security.authorizer)

    def deliver_late(self, connection: PushConnection) -> None:
        """Deliver in the late pass, with other subscribers that owe answers."""
        self._late.add(connection)

    def records_left(self) -> None:
        """Records have just left for a subscriber that is not late."""
        self._late.records_left()

    def closed(self, connection: PushConnection) -> None:
        self._connections.discard(connection)
        self._unauthenticated.pop(connection, None)
        self._wheel.discard(connection)
        self._attended.discard(connection)
        self._late.discard(connection)
        self._rights.discard(connection)

    def supersede(self, group: str, member: str) -> None:
        for connection in list(self._connections):
            subscription = connection.subscription
            if not isinstance(subscription, LogSubscription):
                continue
            if (subscription.group, subscription.member) == (group, member):
                subscription.supersede()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish this after its connection is gone."""
        task = asyncio.get_running_loop().create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def note_end(self, connection: PushConnection, reason: str, message: str) -> None:
        self._log_ended(peer=connection.peer, reason=reason, message=message[:200])

    def note_refused(self, connection: PushConnection, reason: str) -> None:
        self._log_refused(peer=connection.peer, reason=reason)

    def note_bug(self, connection: PushConnection, fault: BaseException) -> None:
        failure("push connection failed", fault, peer=connection.peer)

    # Time

    def _tick(self) -> None:
        """Look after the next connections; all that may be due had their turn after `TICK_S`."""
        now_ms = self.now_ms()
        self._timer = None
        self._end_logins(now_ms)
        if not self._due:
            self._due = self._take_due(now_ms)
            self._turns = -(-len(self._due) // _LOOKED_AFTER_AT_ONCE) or 1
        turn, self._due = self._due[:_LOOKED_AFTER_AT_ONCE], self._due[_LOOKED_AFTER_AT_ONCE:]
        for connection in turn:
            if connection.is_open:
                connection.run(partial(self._look_after, connection, now_ms))
            if connection.is_open:
                self._wheel.put(connection, connection.due_ms)
                if connection.wants_attention:
                    self._attended.add(connection)
        if self._connections:
            self._timer = asyncio.get_running_loop().call_later(TICK_S / self._turns, self._tick)

    def _take_due(self, now_ms: int) -> list[PushConnection]:
        """Those that have their turn in this tick: all of them where topics or leaders may have changed."""
        due = self._wheel.take(now_ms)
        attended, self._attended = self._attended, OrderedSet()
        revision = int(self.broker.metadata.image.revision)
        if revision != self._revision:
            self._revision = revision
            return list(self._connections)
        return list(dict.fromkeys([*due, *attended])) if attended else due

    def _end_logins(self, now_ms: int) -> None:
        """Close connections that have not authenticated in time."""
        login_ms = self.broker.current_settings.security.login_timeout_ms
        for connection, since in list(self._unauthenticated.items()):
            if now_ms - since < login_ms:
                return
            self.broker.counters.unauthenticated_closed += 1
            del self._unauthenticated[connection]
            connection.abort()

    def _look_after(self, connection: PushConnection, now_ms: int) -> None:
        subscription = connection.subscription
        if connection.dialogue.is_dead(now_ms):
            connection.end("silent", "not one byte for 30 s")
        elif connection.session_end_ms is not None and now_ms >= connection.session_end_ms:
            connection.end("session-expired", "authenticate again before a session ends")
        elif subscription is not None and subscription.is_overdue(now_ms):
            connection.end("ack-timeout", "no ACK for 30 s; the next member resumes at the commit")
        else:
            if connection.dialogue.is_heartbeat_due(now_ms):
                connection.send(FrameType.HEARTBEAT, 0)
            if subscription is not None:
                subscription.tick()

    def _check_rights(self, connection: PushConnection) -> None:
        connection.run(connection.check_rights)

    # Who is connected

    async def consumers(self) -> list[ConnectedConsumer]:
        """The subscribers of this node."""
        return await connected_consumers(self.broker, list(self._connections))

    async def close(self) -> None:
        """Tell every client, close, and wait for what has to be finished."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._late.close()
        self._rights.close()
        for connection in list(self._connections):
            connection.end("shutdown", "the broker stops")
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)
        if self._kept:
            await asyncio.wait(list(self._kept), timeout=_FINISH_S)
