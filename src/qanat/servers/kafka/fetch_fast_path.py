"""Fetch (1), the short way: one partition that we lead, for a consumer without a session.

The same as `fetch`, with nothing made that this one does not need: after an answer of a megabyte, or after a
millisecond's wait, the processor's caches hold nothing of ours, and every line of code is paid for anew. Whatever is
not as usual (what that is, `wire.kafka.lone_fetch` says), is not in memory, has aborted transactions or is refused,
goes the long way from the start: looking changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.model.errors import QanatError
from qanat.servers.kafka.connection import Answer, KafkaConnection, Later, Outcome, Parked
from qanat.telemetry.listener_counters import ApiCounters
from qanat.wire.kafka.lone_fetch import FastFetch, read_fast_fetch, write_fast_fetch_head

if TYPE_CHECKING:
    from qanat.wire.kafka.writing import Chunk

Handle = Callable[[memoryview, KafkaConnection], Answer | Parked | Later]


class FetchFastPath:
    """Answers lone fetches of all connections of one listener."""

    def __init__(self, broker: Broker, counters: ApiCounters, handle: Handle) -> None:
        """`handle` is the long way."""
        self._leading = broker.local_replicas.writable
        self._settings = broker.settings
        self.counters = counters
        self.handle = handle

    def take(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome:
        """What a lone fetch is answered with, now or once there is enough; None where it goes the long way."""
        request = read_fast_fetch(frame)
        if request is None:
            return None
        partition = self._leading.get((request.topic, request.partition))
        if partition is None:
            return None
        answer, size = self.look(request, partition)
        if answer is not None and size < request.min_bytes and request.max_wait_ms > 0:
            self.counters.loop_s += perf_counter() - began
            return _Waiting(self, frame, request, partition, connection, size, began)
        if answer is not None:
            self.counters.loop_s += perf_counter() - began
            self.note(len(frame), answer, began)
        return answer

    def look(self, request: FastFetch, partition: Partition) -> tuple[list[Chunk] | None, int]:
        """What can be answered now, and how many bytes of records it has; None where it goes the long way."""
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
        return [write_fast_fetch_head(request, high, stable, log.log_start_offset, size), *views], size

    def note(self, frame_bytes: int, answer: list[Chunk], began: float) -> None:
        """Count a request that was answered."""
        counters = self.counters
        counters.requests += 1
        counters.request_bytes += frame_bytes
        counters.response_bytes += sum(map(len, answer))
        counters.duration_s.observe(perf_counter() - began)


class _Waiting(Later):
    """A fetch that has found too little; looks again when enough has been written, or the time is up."""

    __slots__ = (
        "_began",
        "_connection",
        "_fetches",
        "_frame",
        "_loop",
        "_needed_bytes",
        "_partition",
        "_request",
        "_send",
        "_timer",
    )

    def __init__(
        self,
        fetches: FetchFastPath,
        frame: memoryview,
        request: FastFetch,
        partition: Partition,
        connection: KafkaConnection,
        size: int,
        began: float,
    ) -> None:
        self._fetches = fetches
        self._frame = frame
        self._request = request
        self._partition = partition
        self._connection = connection
        self._needed_bytes = partition.readable_bytes + request.min_bytes - size
        self._began = began
        self._send: Callable[[Answer | Parked | Later], None] | None = None

    def then(self, send: Callable[[Answer | Parked | Later], None]) -> None:
        self._send = send
        self._fetches.counters.parked += 1
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._request.max_wait_ms / 1000, self._look, True)
        self._connection.keep(self)
        self._partition.wait_for_more(self._wake)

    def cancel(self) -> None:
        """The client is gone."""
        self._stop()

    def _wake(self) -> None:
        partition = self._partition
        if partition.is_retired or partition.written_bytes >= self._needed_bytes:
            # Who appends goes on first, and whatever else it appends in this turn is read with it.
            self._loop.call_soon(self._look, False)
        else:
            partition.wait_for_more(self._wake)

    def _look(self, is_late: bool) -> None:
        if self._send is None:
            return
        try:
            answer, size = self._fetches.look(self._request, self._partition)
            if answer is None:
                self._stop()(self._fetches.handle(self._frame, self._connection))
            elif size >= self._request.min_bytes or is_late:
                self._fetches.note(len(self._frame), answer, self._began)
                self._stop()(answer)
            else:
                self._needed_bytes = self._partition.readable_bytes + self._request.min_bytes - size
                self._partition.wait_for_more(self._wake)
        except Exception as bug:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._connection.cut_off(bug)

    def _stop(self) -> Callable[[Answer | Parked | Later], None]:
        send, self._send = self._send, None
        assert send is not None, "stopped once"
        self._timer.cancel()
        self._partition.stop_waiting(self._wake)
        self._connection.let_go(self)
        self._fetches.counters.parked -= 1
        return send
