"""A channel that knows the broker's API versions, so that callers name only an API."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from qanat import __version__
from qanat.connection.channel import Channel
from qanat.connection.deadline import Deadline
from qanat.connection.faults import (
    NotOfferedError,
    OutOfTimeError,
    UnansweredError,
    UnreachableError,
    UnsendableError,
    check,
)
from qanat.connection.network import TCP, Network
from qanat.connection.security import UNPROTECTED, Security
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.headers import read_response_header
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from qanat.wire.kafka.registry import APIS, Api, ApiKey
from qanat.wire.kafka.writing import Chunk

if TYPE_CHECKING:
    from qanat.connection.sasl_session import SaslSession

_BY_NAME_AT_MOST = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
"""Later versions know topics by id only; a caller that has ids passes its own limit."""
_VERSIONS_REQUEST_VERSION = 3
"""Version of our ApiVersions requests; an older broker answers in version 0 (KIP-511)."""


class Link:
    """A connection to one broker. Made by `open`."""

    def __init__(
        self, channel: Channel, offered: dict[int, tuple[int, int]], features: dict[str, int] | None = None
    ) -> None:
        self._channel = channel
        self.offered = offered
        """First and last version of each API that the broker has."""
        self.features = features or {}
        """The highest level of each feature that the broker supports, as far as it says."""
        self._session: SaslSession | None = None
        self._was_answered = False

    @staticmethod
    async def open(
        host: str,
        port: int,
        client_id: str,
        deadline: Deadline,
        security: Security = UNPROTECTED,
        network: Network = TCP,
    ) -> Link:
        """Connect, and authenticate where there are credentials."""
        channel = await Channel.open(host, port, client_id, deadline, security.tls, network)
        try:
            link = Link(channel, *await _offered(channel, deadline))
            if security.credentials is not None:
                # Imported late: clients without credentials start faster.
                from qanat.connection.sasl_session import SaslSession

                link._session = SaslSession(link, security.credentials)
                await link._session.begin(deadline)
            return link
        except OutOfTimeError:
            await channel.close()
            raise OutOfTimeError(
                f"{channel.address} accepts connections but does not answer: "
                "it may be no Kafka broker (an HTTP or TLS port, for example), or a busy one"
            ) from None
        except BaseException:
            await channel.close()
            raise

    @property
    def address(self) -> str:
        return self._channel.address

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    async def close(self) -> None:
        await self._channel.close()

    def abort(self) -> None:
        """Close without waiting for it."""
        self._channel.abort()

    def version_of(self, api_key: ApiKey, at_most: int | None = None) -> int:
        """The latest version that both sides speak, up to `at_most`; raises `NotOfferedError` where there is none."""
        api = APIS[api_key]
        if api_key not in self.offered:
            raise NotOfferedError(f"the broker at {self.address} does not offer {api.name}")
        first, last = self.offered[api_key]
        if at_most is None:
            at_most = _BY_NAME_AT_MOST.get(api_key, api.last_version)
        version = min(last, api.last_version, at_most)
        if version < max(first, api.first_version):
            raise NotOfferedError(
                f"the broker at {self.address} speaks {api.name} in versions {first} to {last}, "
                f"we in {api.first_version} to {api.last_version}: upgrade the older of the two"
            )
        return version

    async def call(self, api_key: ApiKey, request: Any, deadline: Deadline, *, at_most: int | None = None) -> Any:
        """Send a request, and wait for the response."""
        if self._session is not None:
            await self._session.renew(deadline)
        return await self.call_without_session(api_key, request, deadline, at_most=at_most)

    async def call_without_session(
        self, api_key: ApiKey, request: Any, deadline: Deadline, *, at_most: int | None = None
    ) -> Any:
        """`call` without renewing the authentication: for the requests that authenticate."""
        version = self.version_of(api_key, at_most)
        api = APIS[api_key]
        try:
            frame = await self._channel.call(api_key, version, _encoded(api, request, version), deadline)
        except UnreachableError as fault:
            if self._session is not None or self._was_answered:
                raise
            raise UnansweredError(
                f"{fault}; it may require authentication: security.protocol, sasl.mechanism"
            ) from None
        self._was_answered = True
        return _read(api, frame, version, self.address)

    async def send_one_way(self, api_key: ApiKey, request: Any, deadline: Deadline) -> None:
        """Send a request that is never answered."""
        if self._session is not None:
            await self._session.renew(deadline)
        version = self.version_of(api_key)
        await self._channel.send_one_way(api_key, version, _encoded(APIS[api_key], request, version), deadline)


async def _offered(channel: Channel, deadline: Deadline) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    response = await _request_versions(channel, _VERSIONS_REQUEST_VERSION, deadline)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        response = await _request_versions(channel, 0, deadline)
    check(f"{channel.address} does not say what it speaks", response.error_code)
    features = {one.name: one.max_version for one in response.supported_features}
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}, features


async def _request_versions(channel: Channel, version: int, deadline: Deadline) -> ApiVersionsResponse:
    api = APIS[ApiKey.API_VERSIONS]
    request = ApiVersionsRequest(client_software_name="qanat", client_software_version=__version__)
    frame = await channel.call(ApiKey.API_VERSIONS, version, _encoded(api, request, version), deadline)
    # An error comes in version 0, whatever was requested; the code is the first field in every version.
    if int.from_bytes(frame[4:6], signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    response: ApiVersionsResponse = _read(api, frame, version, channel.address)
    return response


def _encoded(api: Api, request: Any, version: int) -> list[Chunk]:
    """The request as bytes; a number or a text that does not fit the protocol is the caller's error, in words."""
    try:
        return api.codec.write_request(request, version)
    except UnicodeEncodeError as fault:
        raise UnsendableError(f"{fault.object[:100]!r} is no UTF-8") from None
    except (struct.error, ValueError) as fault:
        raise UnsendableError(f"{api.name} cannot be asked for: {fault}") from None


def _read(api: Api, frame: memoryview, version: int, address: str) -> Any:
    try:
        _, position = read_response_header(frame, api.key, version)
        return api.codec.read_response(frame, version, position)
    except MalformedMessageError as fault:
        raise UnreachableError(f"{address} answers {api.name} with what cannot be read: {fault}") from None
