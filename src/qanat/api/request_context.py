"""What a handler knows of a request besides its message: the caller, the version, the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.api.caller import Caller
from qanat.broker.runtime.cooperative_yield import Breaths
from qanat.wire.kafka.headers import RequestHeader

if TYPE_CHECKING:
    from qanat.broker.broker import Broker
    from qanat.groups.requests import Sight


class RequestContext(Struct):
    """The caller, the version of its request, and the broker that answers."""

    broker: Broker
    caller: Caller
    header: RequestHeader
    _breaths: Breaths | None = None
    sight: Sight | None = None
    """Which topics the caller may see; None where every caller may see all."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def breaths(self) -> Breaths:
        """Yields to other requests between the rows of a long one."""
        if self._breaths is None:
            self._breaths = Breaths()
        return self._breaths

    @property
    def is_long(self) -> bool:
        """Whether this took more than one piece of work: a request of many rows, or a handler that yielded."""
        return self._breaths is not None and self._breaths.taken > 0
