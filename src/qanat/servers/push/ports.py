"""What the parts of the push server need of each other: a client's connection, its server, its listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from qanat.servers.push.deliveries import Chunk
from qanat.servers.push.local_cluster import LocalCluster

if TYPE_CHECKING:
    from qanat.api.interceptor import Intercepted
    from qanat.broker.broker import Broker
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.push.fresh_batches import FreshBatches
    from qanat.servers.push.shared_payloads import SharedPayloads
    from qanat.servers.request_accounting import RequestAccounting


class PushClient(Protocol):
    """A client, as its subscription or its producer sees it."""

    cluster: LocalCluster
    partition_counts: dict[str, int]
    topic_ids: dict[str, str]
    """The ids of the topics when they were looked up: what the client was told."""
    can_write: bool
    client: str
    """What it calls itself."""
    peer: str

    @property
    def server(self) -> PushHost: ...

    @property
    def is_plain(self) -> bool: ...

    @property
    def room(self) -> int: ...

    def now_ms(self) -> int: ...

    def may_read(self, topic: str) -> bool: ...

    def may_write(self, topic: str) -> bool: ...

    def send(self, frame_type: int, frame_id: int, payload: bytes = b"") -> None: ...

    def send_chunks(self, chunks: list[Chunk]) -> None: ...

    def end(self, reason: str, message: str) -> None: ...

    def run(self, act: Callable[[], None]) -> None:
        """Do something that may fail: a bug ends this client and nothing else."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    def hold(self, work: Coroutine[Any, Any, None]) -> None: ...

    def regulate(self) -> None: ...

    def attend(self) -> None:
        """Look after this client with the next tick."""

    def deliver_late(self) -> None:
        """Deliver to this client in the late pass."""


class PushEndpoint(Protocol):
    """The listener that a connection came over."""

    @property
    def name(self) -> str: ...

    @property
    def protocol(self) -> str: ...

    @property
    def security(self) -> ListenerSecurity | None: ...

    @property
    def is_authorized(self) -> bool: ...


class PushHost(Protocol):
    """The server, as a connection sees it; `connection` is always one of its own."""

    broker: Broker
    intercepted: Intercepted
    scratch: memoryview
    payloads: SharedPayloads
    fresh: FreshBatches
    accounting: RequestAccounting
    """Of what is produced."""
    max_payload_bytes: int

    def now_ms(self) -> int: ...

    def opened(self, connection: Any) -> None: ...

    def authenticated(self, connection: Any) -> None: ...

    def attend(self, connection: Any) -> None: ...

    def guard(self, connection: Any) -> None:
        """It has subscribed: end that soon after the rules do not allow it any more."""

    def deliver_late(self, connection: Any) -> None: ...

    def records_left(self) -> None: ...

    def closed(self, connection: Any) -> None: ...

    def supersede(self, group: str, member: str) -> None:
        """A member of a group is here over a new connection: end the one that it has."""

    def keep(self, work: Coroutine[Any, Any, None]) -> None: ...

    def note_end(self, connection: Any, reason: str, message: str) -> None: ...

    def note_refused(self, connection: Any, reason: str) -> None: ...

    def note_bug(self, connection: Any, fault: BaseException) -> None: ...

    async def consumers(self) -> list[Any]: ...
