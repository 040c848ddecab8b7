"""From a frame to its answer: which API, which version, who handles it, how the answer is written.

An API or a version that is not served closes the connection, as Kafka does.
`ApiVersions` alone is answered in any version, so that a newer client can learn
what to speak (KIP-511). Every request is counted and timed here (`telemetry`).

A request of very many rows, and an answer that took its handler more than one piece of work
(`broker.runtime.cooperative_yield`), are read and written beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from qanat.api.api_table import SERVED, ServedApi
from qanat.api.request_context import RequestContext
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError, TooManyElementsError
from qanat.servers.kafka.codec_worker import ON_LOOP_UNITS, CodecWorker
from qanat.servers.kafka.connection import Answer, KafkaConnection, Later, Outcome, Parked
from qanat.servers.kafka.fast_dispatch import FastDispatch
from qanat.servers.kafka.fetch_fast_path import FetchFastPath
from qanat.servers.kafka.produce_fast_path import ProduceFastPath
from qanat.telemetry.events import RateLimitedEvent
from qanat.telemetry.listener_counters import ApiCounters, ListenerCounters
from qanat.wire.kafka.headers import RequestHeader, frame_response, read_request_header
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


class Asked(NamedTuple):
    """A request on its way to its answer, with where it is counted."""

    served: ServedApi
    header: RequestHeader
    connection: KafkaConnection
    counters: ApiCounters
    began: float
    context: RequestContext


Interceptor = Callable[[ServedApi, Any, RequestContext], Any]
"""Answers in a handler's place, in any of a handler's ways; it may call the handler."""


_WAITS_BY_DESIGN = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""APIs whose answer may take as long as the client allows: a long wait says nothing."""


class Dispatcher(FastDispatch):
    """Answers the frames of all connections of one listener."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.counters = ListenerCounters(SERVED)
        produce_fast_path = ProduceFastPath(broker, self.counters.by_api[ApiKey.PRODUCE])
        fetch_fast_path = FetchFastPath(broker, self.counters.by_api[ApiKey.FETCH], self._handle_anew)
        super().__init__(broker.runtime, produce_fast_path, fetch_fast_path)
        self._tell_slow = RateLimitedEvent("slow request")
        self.codec_worker = CodecWorker()

    def close(self) -> None:
        """Nothing more will be asked."""
        self.codec_worker.close()
        self._produce_fast_path.close()

    def _handle_anew(self, frame: memoryview, connection: KafkaConnection) -> Answer | Parked | Later:
        """What could not be answered the short way after all."""
        outcome = self._handle(frame, connection, perf_counter())
        assert not isinstance(outcome, Coroutine), "nothing behind it waits for a lone request"
        return outcome

    def _handle(self, frame: memoryview, connection: KafkaConnection, began: float) -> Outcome:
        header = read_request_header(frame)
        served = SERVED.get(header.api_key)
        if served is None:
            raise MalformedMessageError(f"API {header.api_key} is not served")
        if not served.serves(header.api_version):
            return _unsupported(served, header)
        counters = self.counters.by_api[header.api_key]
        counters.requests += 1
        counters.request_bytes += len(frame)
        context = RequestContext(self._broker, connection, header)
        codec = served.api.codec
        try:
            request = codec.read_request(frame, header.api_version, header.body_position, ON_LOOP_UNITS)
        except TooManyElementsError:
            return self._after_reading(frame, Asked(served, header, connection, counters, began, context))
        if self.interceptor is None:
            response = served.handle(request, context)
        else:
            response = self.interceptor(served, request, context)
        if not (isinstance(response, Struct) or response is None):
            return self._later(response, Asked(served, header, connection, counters, began, context))
        answer = _encoded(response, served, header, counters)
        elapsed_s = perf_counter() - began
        counters.loop_s += elapsed_s
        counters.duration_s.observe(elapsed_s)
        if elapsed_s * 1000 >= self._broker.settings.slow_request_ms:
            self._note_slow(Asked(served, header, connection, counters, began, context), elapsed_s)
        return answer

    def _later(self, response: Any, asked: Asked) -> Outcome:
        """What is not answered at once: parked, or to be waited for by the requests behind it."""
        if isinstance(response, SyncFuture):
            asked.counters.loop_s += perf_counter() - asked.began
            return _Promptly(self._answer, response, asked)
        if isinstance(response, asyncio.Future):
            asked.counters.loop_s += perf_counter() - asked.began
            return self._when_done(response, asked)
        assert isinstance(response, Coroutine), f"{asked.served.api.name} is not answered by {response!r}"
        return self._after(response, asked)

    def _answer(self, response: Any, asked: Asked) -> Answer:
        """The response to what had to wait, as it is sent."""
        answer = _encoded(response, asked.served, asked.header, asked.counters)
        self._note_answered(asked)
        return answer

    def _note_answered(self, asked: Asked) -> None:
        elapsed_s = perf_counter() - asked.began
        asked.counters.duration_s.observe(elapsed_s)
        if elapsed_s * 1000 >= self._broker.settings.slow_request_ms:
            self._note_slow(asked, elapsed_s)

    def _note_slow(self, asked: Asked, elapsed_s: float) -> None:
        if asked.served.key not in _WAITS_BY_DESIGN:
            client, peer = asked.header.client_id or "", asked.connection.peer
            took_ms = round(elapsed_s * 1000)
            self._tell_slow(api=asked.served.api.name, took_ms=took_ms, client=client, peer=peer)

    def _when_done(self, response: asyncio.Future[Any], asked: Asked) -> Parked:
        """A future of the answer, from a future of the response."""
        answer: Parked = asyncio.get_running_loop().create_future()
        asked.counters.parked += 1

        def pass_on(done: asyncio.Future[Any]) -> None:
            asked.counters.parked -= 1
            if answer.done():
                return
            if done.cancelled():
                answer.cancel()
            elif (fault := done.exception()) is not None:
                answer.set_exception(fault)
            elif asked.context.is_long:
                written = self._broker.park(self._answer_beside(done.result(), asked))
                written.add_done_callback(lambda task: _hand_over(task, answer))
            else:
                answer.set_result(self._answer(done.result(), asked))

        response.add_done_callback(pass_on)
        return answer

    async def _after_reading(self, frame: memoryview, asked: Asked) -> Answer | Parked:
        """Read beside the loop, with the requests behind it waiting; whatever handles it sees that it is long."""
        request = await self.codec_worker.read(asked.served, asked.header, frame)
        await asked.context.yielder.yield_now()
        if self.interceptor is None:
            response = asked.served.handle(request, asked.context)
        else:
            response = self.interceptor(asked.served, request, asked.context)
        if isinstance(response, asyncio.Future):
            return self._when_done(response, asked)
        if isinstance(response, Coroutine):
            return await self._after(response, asked)
        return await self._answer_beside(response, asked)

    async def _answer_beside(self, response: Any, asked: Asked) -> Answer:
        """The same as `_answer`, for what is long."""
        if response is None:
            return self._answer(None, asked)
        answer, errors = await self.codec_worker.write(response, asked.served, asked.header)
        counters = asked.counters
        for code, count in errors.items():
            counters.errors[code] = counters.errors.get(code, 0) + count
        counters.response_bytes += sum(map(len, answer))
        self._note_answered(asked)
        return answer

    async def _after(self, response: Coroutine[Any, Any, Any], asked: Asked) -> Answer | Parked:
        """Wait, with the requests behind it waiting too; what comes out may still be parked."""
        asked.counters.parked += 1
        try:
            result = await response
        finally:
            asked.counters.parked -= 1
        if isinstance(result, asyncio.Future):
            return self._when_done(result, asked)
        if asked.context.is_long:
            return await self._answer_beside(result, asked)
        return self._answer(result, asked)


class _Promptly(Later):
    """The answer to a response that is told of in the turn in which it is there."""

    __slots__ = ("_answer", "_asked", "_response", "_send")

    def __init__(self, answer: Callable[[Any, Asked], Answer], response: SyncFuture[Any], asked: Asked) -> None:
        self._answer = answer
        self._asked = asked
        self._response: SyncFuture[Any] | None = response

    def then(self, send: Callable[[Answer], None]) -> None:
        response, self._response = self._response, None
        assert response is not None, "asked for once"
        self._send = send
        self._asked.counters.parked += 1
        response.sync_callback = self._done

    def _done(self, response: SyncFuture[Any]) -> None:
        asked = self._asked
        asked.counters.parked -= 1
        if response.cancelled():
            return  # The client is gone, or the broker goes.
        fault = response.exception()
        if fault is None:
            try:
                self._send(self._answer(response.result(), asked))
                return
            except Exception as bug:  # noqa: BLE001 - a bug ends this connection, not the broker
                fault = bug
        asked.connection.cut_off(fault)


def _hand_over(done: asyncio.Future[Answer], answer: Parked) -> None:
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif (fault := done.exception()) is not None:
        answer.set_exception(fault)
    else:
        answer.set_result(done.result())


def _encoded(response: Any, served: ServedApi, header: RequestHeader, counters: ApiCounters) -> Answer:
    if response is None:
        return None
    served.count_errors(response, counters.errors)
    body = served.api.codec.write_response(response, header.api_version)
    answer = frame_response(header.api_key, header.api_version, header.correlation_id, body)
    counters.response_bytes += len(answer[0]) if len(answer) == 1 else sum(map(len, answer))
    return answer


def _unsupported(served: ServedApi, header: RequestHeader) -> Answer:
    if served.key is not ApiKey.API_VERSIONS:
        raise MalformedMessageError(
            f"{served.api.name} version {header.api_version} is not served, "
            f"{served.first_version} to {served.last_version} are"
        )
    from qanat.api.cluster.api_versions import unsupported

    body = served.api.codec.write_response(unsupported(ErrorCode.UNSUPPORTED_VERSION), 0)
    return frame_response(header.api_key, 0, header.correlation_id, body)
