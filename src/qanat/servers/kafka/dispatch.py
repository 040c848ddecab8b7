"""Dispatch: from a frame to its API, version and handler, and from the response to the answer.

An API or a version that is not served closes the connection, as in Kafka. `ApiVersions` alone is answered in any
version, so that a newer client learns which versions to use (KIP-511). Every request is counted, timed and logged where
it is slow (`request_accounting`).

A worker decodes a request of very many rows, and encodes the response of a handler that yielded
(`broker.runtime.cooperative_yield`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from qanat.api.api_table import SERVED, ServedApi
from qanat.api.request_context import RequestContext
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError, TooManyElementsError
from qanat.servers.kafka.codec_worker import ON_LOOP_UNITS, CodecWorker
from qanat.servers.kafka.connection import Answer, DeferredAnswer, KafkaConnection, Outcome, Parked
from qanat.servers.kafka.fast_dispatch import FastDispatch
from qanat.servers.kafka.fetch_fast_path import FetchFastPath
from qanat.servers.kafka.produce_fast_path import ProduceFastPath
from qanat.servers.request_accounting import RequestAccounting
from qanat.telemetry.listener_counters import ListenerCounters
from qanat.wire.kafka.headers import RequestHeader, frame_response, read_request_header
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class PendingRequest(NamedTuple):
    """A request that is not answered yet, with the accounting of its API."""

    served: ServedApi
    header: RequestHeader
    connection: KafkaConnection
    accounting: RequestAccounting
    began: float
    context: RequestContext


_WAITS_BY_DESIGN = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""APIs whose answer may take as long as the client allows: a long wait is not slow."""


class Dispatcher(FastDispatch):
    """Answers the frames of all connections of one listener."""

    def __init__(self, broker: Broker) -> None:
        self.counters = ListenerCounters(SERVED)
        self._accounting = {
            key: RequestAccounting(
                SERVED[key].api.name,
                counters,
                broker.current_settings,
                None if key in _WAITS_BY_DESIGN else broker.log_slow_request,
            )
            for key, counters in self.counters.by_api.items()
        }
        produce_fast_path = ProduceFastPath(broker, self._accounting[ApiKey.PRODUCE])
        fetch_fast_path = FetchFastPath(broker, self._accounting[ApiKey.FETCH], self._go_on)
        super().__init__(broker, produce_fast_path, fetch_fast_path, self._handle)
        self.codec_worker = CodecWorker()

    def close(self) -> None:
        """End the worker; no frame comes after this."""
        self.codec_worker.close()

    def _go_on(
        self, frame: memoryview, connection: KafkaConnection, began: float, wait_ms: int
    ) -> Answer | Parked | DeferredAnswer:
        """Answer a Fetch that the fast path counted and parked, and cannot answer; it waits on for so long."""
        header = read_request_header(frame)
        served = SERVED[header.api_key]
        request = served.api.codec.read_request(frame, header.api_version, header.body_position)
        request.max_wait_ms = wait_ms
        context = RequestContext(self._broker, connection, header)
        response = self._respond(served, request, context)
        pending = PendingRequest(served, header, connection, self._accounting[header.api_key], began, context)
        if isinstance(response, SyncFuture):
            return _SyncAnswer(response, pending)
        if isinstance(response, asyncio.Future):
            return self._when_done(response, pending)
        assert isinstance(response, Struct), "a Fetch of one partition never holds the requests behind it"
        return _answer(response, pending)

    def _respond(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        if self.interceptor is None:
            return served.handle(request, context)
        return self.interceptor(served, request, context)

    def _handle(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome:
        header = read_request_header(frame)
        served = SERVED.get(header.api_key)
        if served is None:
            raise MalformedMessageError(f"API {header.api_key} is not served")
        if not served.serves(header.api_version):
            return _unsupported(served, header)
        accounting = self._accounting[header.api_key]
        accounting.arrived(len(frame))
        context = RequestContext(self._broker, connection, header)
        codec = served.api.codec
        try:
            request = codec.read_request(frame, header.api_version, header.body_position, ON_LOOP_UNITS)
        except TooManyElementsError:
            return self._after_reading(frame, PendingRequest(served, header, connection, accounting, began, context))
        if self.interceptor is None:
            response = served.handle(request, context)
        else:
            response = self.interceptor(served, request, context)
        if not (isinstance(response, Struct) or response is None):
            return self._deferred(response, PendingRequest(served, header, connection, accounting, began, context))
        answer = _encoded(response, served, header, accounting.counters.errors)
        elapsed_s = accounting.answered_at_once(began, _size_of(answer))
        if accounting.is_slow(elapsed_s):
            accounting.log_slow(elapsed_s, header.client_id or "", connection.peer)
        return answer

    def _deferred(self, response: Any, pending: PendingRequest) -> Outcome:
        """The outcome of a handler that did not answer at once: parked, or held before the requests behind it."""
        if isinstance(response, SyncFuture):
            pending.accounting.handled(pending.began)
            return _SyncAnswer(response, pending)
        if isinstance(response, asyncio.Future):
            pending.accounting.handled(pending.began)
            return self._when_done(response, pending)
        assert isinstance(response, Coroutine), f"{pending.served.api.name} is not answered by {response!r}"
        return self._after(response, pending)

    def _when_done(self, response: asyncio.Future[Any], pending: PendingRequest) -> Parked:
        """A future of the answer from a future of the response."""
        answer: Parked = asyncio.get_running_loop().create_future()
        pending.accounting.parked()

        def pass_on(done: asyncio.Future[Any]) -> None:
            pending.accounting.unparked()
            if answer.done():
                return
            if done.cancelled():
                answer.cancel()
            elif (fault := done.exception()) is not None:
                answer.set_exception(fault)
            elif pending.context.is_long:
                written = self._broker.park(self._answer_in_worker(done.result(), pending))
                written.add_done_callback(lambda task: _copy_outcome(task, answer))
            else:
                answer.set_result(_answer(done.result(), pending))

        response.add_done_callback(pass_on)
        return answer

    async def _after_reading(self, frame: memoryview, pending: PendingRequest) -> Answer | Parked:
        """Decode in a worker while the requests behind it wait; the handler sees that the request is long."""
        request = await self.codec_worker.read(pending.served, pending.header, frame)
        await pending.context.yielder.yield_now()
        response = self._respond(pending.served, request, pending.context)
        if isinstance(response, asyncio.Future):
            return self._when_done(response, pending)
        if isinstance(response, Coroutine):
            return await self._after(response, pending)
        return await self._answer_in_worker(response, pending)

    async def _answer_in_worker(self, response: Any, pending: PendingRequest) -> Answer:
        """`_answer` for a long response: a worker encodes it."""
        if response is None:
            return _answer(None, pending)
        answer, errors = await self.codec_worker.write(response, pending.served, pending.header)
        counted = pending.accounting.counters.errors
        for code, count in errors.items():
            counted[code] = counted.get(code, 0) + count
        _note_answered(answer, pending)
        return answer

    async def _after(self, response: Coroutine[Any, Any, Any], pending: PendingRequest) -> Answer | Parked:
        """Await a response while the requests behind it wait; its result may still be parked."""
        pending.accounting.parked()
        try:
            result = await response
        finally:
            pending.accounting.unparked()
        if isinstance(result, asyncio.Future):
            return self._when_done(result, pending)
        if pending.context.is_long:
            return await self._answer_in_worker(result, pending)
        return _answer(result, pending)


class _SyncAnswer(DeferredAnswer):
    """The answer to a `SyncFuture`: sent in the turn of the loop in which the response is there."""

    __slots__ = ("_pending", "_response", "_send")

    def __init__(self, response: SyncFuture[Any], pending: PendingRequest) -> None:
        self._pending = pending
        self._response: SyncFuture[Any] | None = response

    def then(self, send: Callable[[Answer], None]) -> None:
        response, self._response = self._response, None
        assert response is not None, "then is called once"
        self._send = send
        self._pending.accounting.parked()
        response.sync_callback = self._done

    def _done(self, response: SyncFuture[Any]) -> None:
        pending = self._pending
        pending.accounting.unparked()
        if response.cancelled():
            return  # The client disconnected, or the broker stops.
        fault = response.exception()
        if fault is None:
            try:
                self._send(_answer(response.result(), pending))
                return
            except Exception as bug:  # noqa: BLE001 - a bug ends this connection, not the broker
                fault = bug
        pending.connection.cut_off(fault)


def _copy_outcome(done: asyncio.Future[Answer], answer: Parked) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif (fault := done.exception()) is not None:
        answer.set_exception(fault)
    else:
        answer.set_result(done.result())


def _answer(response: Any, pending: PendingRequest) -> Answer:
    """Encode the response to a request that had to wait."""
    answer = _encoded(response, pending.served, pending.header, pending.accounting.counters.errors)
    _note_answered(answer, pending)
    return answer


def _note_answered(answer: Answer, pending: PendingRequest) -> None:
    accounting = pending.accounting
    elapsed_s = accounting.answered(pending.began, _size_of(answer))
    if accounting.is_slow(elapsed_s):
        accounting.log_slow(elapsed_s, pending.header.client_id or "", pending.connection.peer)


def _encoded(response: Any, served: ServedApi, header: RequestHeader, errors: dict[int, int]) -> Answer:
    """Encode a response, and count the errors that it carries."""
    if response is None:
        return None
    served.count_errors(response, errors)
    body = served.api.codec.write_response(response, header.api_version)
    return frame_response(header.api_key, header.api_version, header.correlation_id, body)


def _size_of(answer: Answer) -> int:
    if answer is None:
        return 0
    return len(answer[0]) if len(answer) == 1 else sum(map(len, answer))


def _unsupported(served: ServedApi, header: RequestHeader) -> Answer:
    if served.key is not ApiKey.API_VERSIONS:
        raise MalformedMessageError(
            f"{served.api.name} version {header.api_version} is not served, "
            f"{served.first_version} to {served.last_version} are"
        )
    from qanat.api.cluster.api_versions import unsupported

    body = served.api.codec.write_response(unsupported(ErrorCode.UNSUPPORTED_VERSION), 0)
    return frame_response(header.api_key, 0, header.correlation_id, body)
