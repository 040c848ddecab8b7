"""What a session with a broker needs of the consumer that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from qanat.client.queue.chunks import Chunk
from qanat.client.queue.locks import PartitionLocks
from qanat.client.queue.settings import QueueSettings
from qanat.connection.cluster import Cluster
from qanat.connection.share_sessions import Place, Verdicts
from qanat.model.errors import QanatError


class SessionHost(Protocol):
    """The consumer on the I/O loop; `QueueMember` is one."""

    settings: QueueSettings
    member_id: str
    data: Cluster
    locks: dict[tuple[str, int], PartitionLocks]

    @property
    def epoch(self) -> int: ...
    @property
    def has_room(self) -> bool: ...
    @property
    def fetch_in_s(self) -> float: ...
    def topic_name(self, at: Place) -> str: ...
    def leader_is_stale(self) -> None: ...
    def put(self, chunk: Chunk) -> None: ...
    def collect(self) -> None: ...
    def fail(self, fault: QanatError) -> None: ...
    def lose(self, locks: PartitionLocks, offsets: Sequence[int], reason: str) -> None: ...
    def refuse(self, locks: PartitionLocks, said: Verdicts, reason: str) -> None: ...
    def note_settled(self) -> None: ...
