"""The caller of an HTTP request: its address and its principal (`authentication` finds it).

Handlers see a caller in place of a Kafka connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from qanat.api.records.refused_batches import RefusedBatches
from qanat.security.authentication import ANONYMOUS, Principal

if TYPE_CHECKING:
    from qanat.api.caller import Denial

CLIENT_ID = "qanat-http"
"""The client id of HTTP, here and at other brokers; group members with it have HTTP's session timeout."""


class HttpCaller:
    """The client of one request."""

    __slots__ = (
        "__weakref__",
        "host",
        "is_closed_by_broker",
        "is_inter_broker",
        "last_denial",
        "peer",
        "principal",
        "refused_batches",
    )

    def __init__(self, address: tuple[str, int] | None, principal: Principal = ANONYMOUS) -> None:
        self.host = address[0] if address else ""
        self.peer = f"{address[0]}:{address[1]}" if address else ""
        self.principal = principal
        self.refused_batches = RefusedBatches()
        self.last_denial: Denial | None = None
        self.is_inter_broker = False
        self.is_closed_by_broker = True
        """The end of a request is not the client's doing: it releases nothing that the client holds."""

    def close(self) -> None:
        """Do nothing: every HTTP request is answered."""

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        """Do nothing: the request awaits it, and is cancelled itself."""
