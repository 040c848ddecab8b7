"""Calls to an etcd of several members: one member at a time, and the next one when that does not answer.

Rule 1: every attempt has a deadline of its own and every call one for all its attempts, so that a frozen
        member (that is not dead) costs one attempt.
Rule 2: an attempt without an answer may have had an effect. `call` repeats it all the same: a request that must not
        happen twice says so (`is_repeatable=False`), or its compares prevent it (`etcd_commits`).
Rule 3: a silent connection is not used again: something on its path may have forgotten it, and only
        a new one shows whether the member is well.
Rule 4: all members belong to one etcd cluster. An answer from another is refused: acting on it would mix two
        histories.

Used on the loop on which it was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import grpc

from qanat.adapters import etcd_messages as messages
from qanat.adapters.etcd_access import EtcdAccess
from qanat.adapters.etcd_errors import EtcdFault, FaultKind, judged, store_error
from qanat.adapters.etcd_wire import MalformedAnswerError
from qanat.model.errors import StoreUnavailableError

PAUSE_S = 0.05
PAUSE_MAX_S = 0.5
LAST_WORDS_S = 0.02
RETIREMENT_S = 10.0
"""How long streams on an abandoned connection may continue, in case it was only slow."""

Answer = TypeVar("Answer")


class Stream(Protocol):
    """The part of gRPC's bidirectional call that we use; at the end `read` returns something else than bytes."""

    async def read(self) -> object: ...

    async def write(self, request: bytes) -> None: ...

    async def done_writing(self) -> None: ...

    def cancel(self) -> bool: ...

    async def code(self) -> grpc.StatusCode: ...

    async def details(self) -> str | None: ...


class EtcdConnection:
    """One channel per member; a caller that finds the current member faulty switches to the next."""

    def __init__(self, access: EtcdAccess) -> None:
        self.access = access
        self._channels = [access.channel(endpoint) for endpoint in access.endpoints]
        self._switch_count = 0
        self._token: str | None = None
        self._cluster_id: int | None = None
        self._retiring: dict[asyncio.Task[None], grpc.aio.Channel] = {}
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        for task in self._retiring:
            task.cancel()
        for channel in (*self._channels, *self._retiring.values()):
            await channel.close()
        # gRPC reports the end of cancelled calls a moment later, and complains when the loop is closed by then.
        await asyncio.sleep(LAST_WORDS_S)

    @property
    def switch_count(self) -> int:
        """Counts the switches to another connection; `switch_member` compares it."""
        return self._switch_count

    @property
    def member(self) -> int:
        """The index of the endpoint in use."""
        return self._switch_count % len(self._channels)

    def switch_member(self, switch_count: int, fault: EtcdFault | None = None) -> None:
        """Use the next member, unless another caller has switched since `switch_count`."""
        if self._switch_count == switch_count:
            if fault is not None and fault.is_silent:
                self._retire(self.member)
            self._switch_count += 1

    def _retire(self, member: int) -> None:
        """Make the next call to this member open a new connection."""
        channel = self._channels[member]
        self._channels[member] = self.access.channel(self.access.endpoints[member])
        task = asyncio.create_task(self._close_later(channel))
        self._retiring[task] = channel
        task.add_done_callback(lambda done: self._retiring.pop(done, None))

    async def _close_later(self, channel: grpc.aio.Channel) -> None:
        await asyncio.sleep(RETIREMENT_S)
        await channel.close()

    async def call(
        self,
        act: str,
        method: str,
        request: bytes,
        read: Callable[[bytes], Answer],
        *,
        is_repeatable: bool = True,
        timeout_ms: int | None = None,
    ) -> tuple[Answer, int]:
        """The answer, and the number of the attempt that brought it.

        Raises `StoreUnavailableError` where there is none, and the `EtcdFault` where etcd refuses.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout_ms or self.access.request_timeout_ms) / 1000
        attempt = 0
        while True:
            attempt += 1
            attempt_s = self.access.attempt_timeout_ms / 1000 * 2 ** ((attempt - 1) // len(self._channels))
            switch_count = self._switch_count
            try:
                answer = await self._attempt(method, request, min(attempt_s, max(deadline - loop.time(), 0.001)))
                return read(answer), attempt
            except MalformedAnswerError as error:
                raise self._refused(act, f"what answers there is no etcd ({error})") from None
            except EtcdFault as fault:
                if fault.kind is FaultKind.TOKEN_OLD and attempt == 1:
                    self._token = None
                    continue
                if fault.kind is not FaultKind.UNANSWERED:
                    fault.attempt = attempt
                    raise
                self.switch_member(switch_count, fault)
                pause_s = min(PAUSE_S * attempt, PAUSE_MAX_S)
                if not is_repeatable or loop.time() + pause_s >= deadline:
                    raise self._refused(act, f"{fault}; check that etcd runs and can be reached") from fault
            await asyncio.sleep(pause_s)

    async def open_stream(self, method: str, timeout_s: float | None = None) -> Stream:
        """A stream with the current member. `read_from` raises its faults."""
        self._check_open()
        metadata = await self._metadata(self.access.attempt_timeout_ms / 1000)
        stream: Stream = self._channels[self.member].stream_stream(method)(timeout=timeout_s, metadata=metadata)
        return stream

    async def read_from(self, stream: Stream) -> bytes:
        """The next message of a stream; `EtcdFault` where it has ended."""
        try:
            answer = await stream.read()
            if isinstance(answer, bytes):
                self._check_cluster(answer)
                return answer
            raise judged(await stream.code(), await stream.details() or "the stream has ended")
        except grpc.aio.AioRpcError as error:
            raise judged(error.code(), error.details() or "") from None
        except grpc.aio.InternalError as error:  # The connection broke while gRPC began to read.
            raise EtcdFault(FaultKind.UNANSWERED, f"the stream has ended ({error})") from None
        except asyncio.CancelledError:
            raise self._ended_here() from None

    async def write_to(self, stream: Stream, request: bytes) -> None:
        try:
            await stream.write(request)
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError) as error:
            raise EtcdFault(FaultKind.UNANSWERED, f"the stream has ended ({error})") from None

    async def keep_alive(self, lease_id: int, timeout_s: float) -> bool:
        """One attempt to renew a lease; false where it has expired."""
        switch_count = self._switch_count
        try:
            stream = await self.open_stream(messages.LEASE_KEEP_ALIVE, timeout_s)
            try:
                await self.write_to(stream, messages.lease_request(lease_id))
                is_alive = messages.read_lease(await self.read_from(stream)).ttl_s > 0
                await self._end(stream)
                return is_alive
            finally:
                stream.cancel()
        except EtcdFault as fault:
            if fault.kind is FaultKind.TOKEN_OLD:
                self._token = None
            self.switch_member(switch_count, fault)
            raise

    async def _end(self, stream: Stream) -> None:
        """Say that nothing follows; the answer is here, so it does not matter whether etcd still hears that."""
        with suppress(grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            await stream.done_writing()
            await stream.code()

    async def _attempt(self, method: str, request: bytes, timeout_s: float) -> bytes:
        self._check_open()
        metadata = await self._metadata(timeout_s)
        return await self._send(method, request, timeout_s, metadata)

    async def _send(self, method: str, request: bytes, timeout_s: float, metadata: grpc.aio.Metadata) -> bytes:
        try:
            call = self._channels[self.member].unary_unary(method)(request, timeout=timeout_s, metadata=metadata)
            answer: bytes = await call
        except grpc.aio.AioRpcError as error:
            raise judged(error.code(), error.details() or "") from None
        except asyncio.CancelledError:
            raise self._ended_here() from None
        self._check_cluster(answer)
        return answer

    def _ended_here(self) -> BaseException:
        """The exception for a cancelled call: its channel was closed, or the caller's task was cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return asyncio.CancelledError()
        self._check_open()
        return EtcdFault(FaultKind.UNANSWERED, "the connection was given up")

    async def _metadata(self, timeout_s: float) -> grpc.aio.Metadata:
        """Metadata of every call: fail at once where there is no leader; our login."""
        metadata = grpc.aio.Metadata(("hasleader", "true"))
        if self.access.username is None:
            return metadata
        if self._token is None:
            request = messages.authenticate_request(self.access.username, self.access.password or "")
            self._token = messages.read_token(await self._send(messages.AUTHENTICATE, request, timeout_s, metadata))
        metadata.add("token", self._token)
        return metadata

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailableError("the metadata store is closed")

    def _check_cluster(self, answer: bytes) -> None:
        try:
            found = messages.read_header_of(answer).cluster_id
        except MalformedAnswerError:
            return  # The reader of the whole answer reports it.
        if self._cluster_id is None:
            self._cluster_id = found or None
        elif found and found != self._cluster_id:
            endpoint = self.access.endpoints[self.member]
            raise self._refused("use", f"{endpoint} belongs to another etcd cluster; check metadata.etcd.endpoints")

    def _refused(self, act: str, why: str) -> StoreUnavailableError:
        return store_error(act, self.access, EtcdFault(FaultKind.FINAL, why))
