"""From a frame to its answer: which API, which version, who handles it, how the answer is written.

An API or a version that is not served closes the connection, as Kafka does.
`ApiVersions` alone is answered in any version, so that a newer client can learn
what to speak (KIP-511).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError
from qanat.servers.kafka.apis import SERVED, ServedApi
from qanat.servers.kafka.connection import Answer, KafkaConnection, Outcome, Parked
from qanat.wire.kafka.headers import RequestHeader, frame_response, read_request_header
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker


@dataclass(slots=True)
class Context:
    """Who asks, in which version, and the broker that is asked."""

    broker: Broker
    connection: KafkaConnection
    header: RequestHeader

    @property
    def version(self) -> int:
        return self.header.api_version


Interceptor = Callable[[ServedApi, Any, Context], Any]
"""Answers in a handler's place, in any of a handler's ways; it may call the handler."""


class Dispatcher:
    """Answers the frames of all connections of one listener."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.interceptor: Interceptor | None = None
        """Set by tests that want trouble (`qanat.testing`); never by a broker."""

    def handle(self, frame: memoryview, connection: KafkaConnection) -> Outcome:
        header = read_request_header(frame)
        served = SERVED.get(header.api_key)
        if served is None:
            raise MalformedMessageError(f"API {header.api_key} is not served")
        if not served.serves(header.api_version):
            return _unsupported(served, header)
        request = served.api.codec.read_request(frame, header.api_version, header.body_position)
        context = Context(self._broker, connection, header)
        if self.interceptor is None:
            response = served.handle(request, context)
        else:
            response = self.interceptor(served, request, context)
        if isinstance(response, asyncio.Future):
            return _when_done(response, served, header)
        if isinstance(response, Coroutine):
            return _after(response, served, header)
        return _encoded(response, served, header)


def _encoded(response: Any, served: ServedApi, header: RequestHeader) -> Answer:
    if response is None:
        return None
    body = served.api.codec.write_response(response, header.api_version)
    return frame_response(header.api_key, header.api_version, header.correlation_id, body)


def _when_done(response: asyncio.Future[Any], served: ServedApi, header: RequestHeader) -> Parked:
    """A future of the answer, from a future of the response."""
    answer: Parked = asyncio.get_running_loop().create_future()

    def pass_on(done: asyncio.Future[Any]) -> None:
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
        elif (fault := done.exception()) is not None:
            answer.set_exception(fault)
        else:
            answer.set_result(_encoded(done.result(), served, header))

    response.add_done_callback(pass_on)
    return answer


async def _after(response: Coroutine[Any, Any, Any], served: ServedApi, header: RequestHeader) -> Answer | Parked:
    """Wait, with the requests behind it waiting too; what comes out may still be parked."""
    result = await response
    if isinstance(result, asyncio.Future):
        return _when_done(result, served, header)
    return _encoded(result, served, header)


def _unsupported(served: ServedApi, header: RequestHeader) -> Answer:
    if served.key is not ApiKey.API_VERSIONS:
        raise MalformedMessageError(
            f"{served.api.name} version {header.api_version} is not served, "
            f"{served.first_version} to {served.last_version} are"
        )
    from qanat.servers.kafka.api_versions import unsupported

    body = served.api.codec.write_response(unsupported(ErrorCode.UNSUPPORTED_VERSION), 0)
    return frame_response(header.api_key, 0, header.correlation_id, body)
