"""The fast path of Fetch (1): one partition that this broker leads, for a consumer without a session.

It answers as `api.records.fetch` does and makes nothing that this request does not need: after an answer of a
megabyte, or a millisecond's wait, the processor's caches hold nothing of ours, and every line of code is loaded anew.
A request that is not of this form (`wire.kafka.fast_fetch`), whose records are not in memory or have aborted
transactions, or that is refused, takes the ordinary path from the start: reading changes nothing. One that turns out to
be such after it was parked goes on there, for the rest of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.api.permissions import Permissions
from qanat.broker.broker import Broker
from qanat.broker.replicas.parked_fetch import ParkedFetch, Wake
from qanat.broker.replicas.partition import Partition
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation, ResourceKind
from qanat.servers.kafka.connection import Answer, DeferredAnswer, KafkaConnection, Outcome, Parked
from qanat.servers.request_accounting import RequestAccounting
from qanat.wire.kafka.fast_fetch import FastFetch, read_fast_fetch, write_fast_fetch

if TYPE_CHECKING:
    from qanat.wire.kafka.writing import Chunk

GoOn = Callable[[memoryview, KafkaConnection, float, int], Answer | Parked | DeferredAnswer]
"""Takes the frame of a parked fetch, its connection, when it began and how many milliseconds it may still wait."""

_READ, _TOPIC = Operation.READ, ResourceKind.TOPIC  # Looked up once: attribute access on an enumeration is slow.


class FetchFastPath:
    """Answers single-partition fetches of all connections of one listener."""

    def __init__(self, broker: Broker, accounting: RequestAccounting, go_on: GoOn) -> None:
        """`go_on` is the ordinary path for a fetch that is counted and has waited."""
        self._by_name = broker.local_replicas.writable
        self._by_id = broker.local_replicas.by_id
        self._settings = broker.settings
        self.accounting = accounting
        self.go_on = go_on

    def try_handle(
        self, frame: memoryview, connection: KafkaConnection, permissions: Permissions | None, began: float
    ) -> Outcome:
        """The answer to a fetch, at once or when there is enough; None for the ordinary path.

        `permissions` is None where no authorizer decides.
        """
        request = read_fast_fetch(frame)
        if request is None:
            return None
        topic = request.topic
        if isinstance(topic, str):
            partition = self._by_name.get((topic, request.partition))
        else:
            partition = self._by_id.get((topic, request.partition))
        if partition is None or (permissions is not None and not permissions.allow(_READ, _TOPIC, partition.topic)):
            return None
        answer, size = self.read(request, partition)
        if answer is None:
            return None
        self.accounting.arrived(len(frame))
        if size < request.min_bytes and request.max_wait_ms > 0:
            self.accounting.handled(began)
            return _ParkedAnswer(self, frame, request, partition, connection, permissions, size, began)
        self.accounting.answered_at_once(began, sum(map(len, answer)))
        return answer

    def read(self, request: FastFetch, partition: Partition) -> tuple[list[Chunk] | None, int]:
        """The answer as of now and the size of its records; None for the ordinary path."""
        if partition.is_retired or (request.leader_epoch >= 0 and request.leader_epoch != partition.leader_epoch):
            return None, 0
        log, offset = partition.log, request.offset
        high, stable = log.high_watermark, log.last_stable_offset
        most_bytes = min(request.max_bytes, self._settings.fetch_max_bytes)
        try:
            read = partition.read_now(offset, max(most_bytes, 0), stable if request.is_committed else high)
        except QanatError:
            return None, 0
        if read is None:
            return None, 0
        views = read.views()
        if views and request.is_committed and log.may_have_aborted(offset):
            return None, 0
        size = sum(map(len, views))
        return write_fast_fetch(request, high, stable, log.log_start_offset, views, size), size


class _ParkedAnswer(DeferredAnswer):
    """A fetch that found too little: it reads again when enough is written, or when its time is up."""

    __slots__ = (
        "_began",
        "_connection",
        "_fetches",
        "_frame",
        "_needed_bytes",
        "_parked",
        "_partition",
        "_permissions",
        "_request",
        "_send",
    )

    def __init__(
        self,
        fetches: FetchFastPath,
        frame: memoryview,
        request: FastFetch,
        partition: Partition,
        connection: KafkaConnection,
        permissions: Permissions | None,
        size: int,
        began: float,
    ) -> None:
        self._fetches = fetches
        self._frame = frame
        self._request = request
        self._partition = partition
        self._connection = connection
        self._permissions = permissions
        self._needed_bytes = partition.readable_bytes + request.min_bytes - size
        self._began = began

    def then(self, send: Callable[[Answer | Parked | DeferredAnswer], None]) -> None:
        self._send = send
        self._fetches.accounting.parked()
        self._connection.add_cancellable(self)
        self._parked = ParkedFetch(self, self._request.max_wait_ms / 1000, self._retry)

    def cancel(self) -> None:
        """End with the client's connection."""
        self._stop()

    def wait_for_more(self, wake: Wake) -> None:
        self._partition.wait_for_more(wake)

    def stop_waiting(self, wake: Wake) -> None:
        self._partition.stop_waiting(wake)

    def is_due(self) -> bool:
        return self._partition.is_retired or self._partition.written_bytes >= self._needed_bytes

    def _retry(self, is_late: bool) -> None:
        try:
            answer, size = self._read()
            if answer is None:
                self._stop()
                wait_ms = 0 if is_late else self._parked.remaining_ms
                self._send(self._fetches.go_on(self._frame, self._connection, self._began, wait_ms))
            elif size >= self._request.min_bytes or is_late:
                self._stop()
                self._fetches.accounting.answered(self._began, sum(map(len, answer)))
                self._send(answer)
            else:
                self._needed_bytes = self._partition.readable_bytes + self._request.min_bytes - size
        except Exception as bug:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._connection.cut_off(bug)

    def _read(self) -> tuple[list[Chunk] | None, int]:
        """Read again; the client may have lost its right while it waited, and the ordinary path says so."""
        permissions = self._permissions
        if permissions is not None and not permissions.allow(_READ, _TOPIC, self._partition.topic):
            return None, 0
        return self._fetches.read(self._request, self._partition)

    def _stop(self) -> None:
        self._parked.stop()
        self._connection.remove_cancellable(self)
        self._fetches.accounting.unparked()
