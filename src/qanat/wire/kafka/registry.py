"""Every API key, and the codec's versions of each API; importing this imports no message.

The ranges are what can be read and written. A broker decides what it serves, within
these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, cast

from qanat.wire.kafka.messages.api_table import ROWS, ApiKey
from qanat.wire.kafka.reading import REQUEST_UNITS
from qanat.wire.kafka.writing import Chunk

__all__ = ["APIS", "Api", "ApiKey", "Codec"]

# Later than any version: for what never became flexible.
NEVER = 1 << 15


class Codec(Protocol):
    """The functions of each generated module of an API."""

    def read_request(
        self, data: memoryview, version: int, position: int = 0, most_units: int = REQUEST_UNITS
    ) -> Any: ...

    def write_request(self, message: Any, version: int) -> list[Chunk]: ...

    def read_response(self, data: memoryview, version: int, position: int = 0) -> Any: ...

    def write_response(self, message: Any, version: int) -> list[Chunk]: ...


@dataclass(frozen=True)
class Api:
    """One API: versions that the codec knows, and from which on request and response are flexible (KIP-482)."""

    key: ApiKey
    name: str
    module: str
    first_version: int
    last_version: int
    request_flexible_from: int
    response_flexible_from: int

    @cached_property
    def codec(self) -> Codec:
        """The generated module, imported on first use."""
        return cast(Codec, import_module(f"qanat.wire.kafka.messages.{self.module}"))

    @property
    def response_header_flexible_from(self) -> int:
        """ApiVersions is always answered with the oldest header: the client may not know any other (KIP-511)."""
        return NEVER if self.key is ApiKey.API_VERSIONS else self.response_flexible_from

    def knows(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version


APIS: dict[int, Api] = {
    int(key): Api(
        key,
        name,
        module,
        first_version=first,
        last_version=last,
        request_flexible_from=NEVER if request is None else request,
        response_flexible_from=NEVER if response is None else response,
    )
    for key, (name, module, first, last, request, response) in ROWS.items()
}
