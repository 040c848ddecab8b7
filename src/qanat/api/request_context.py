"""The context of a request: what a handler knows besides the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.api.caller import Caller
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.wire.kafka.headers import RequestHeader

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck
    from qanat.broker.broker import Broker
    from qanat.groups.requests import TopicVisibility


class RequestContext(Struct):
    """The broker, the caller, and the header with the version of the request."""

    broker: Broker
    caller: Caller
    header: RequestHeader
    _yielder: CooperativeYield | None = None
    access: AccessCheck | None = None
    """What the caller may do; None where no authorizer decides."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def visibility(self) -> TopicVisibility | None:
        """Which topics the caller may see; None where no authorizer decides."""
        return None if self.access is None else self.access.visibility

    @property
    def yielder(self) -> CooperativeYield:
        """Yields to other requests between the rows of a long one."""
        if self._yielder is None:
            self._yielder = CooperativeYield()
        return self._yielder

    @property
    def is_long(self) -> bool:
        """Whether the request has many rows, or its handler has yielded."""
        return self._yielder is not None and self._yielder.count > 0
