"""The interceptor: the one place in front of all handlers.

Authorization stands there (`authorize`), and so do the planned faults of tests (`qanat.testing`). Every server of a
broker passes its requests through the same interceptor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from qanat.api.api_table import ServedApi
from qanat.api.request_context import RequestContext

Interceptor = Callable[[ServedApi, Any, RequestContext], Any]
"""Answers in a handler's place, in any form that a handler may return; it may call the handler."""


class Intercepted(Protocol):
    """What holds the interceptor of a broker; None where requests go straight to their handlers."""

    interceptor: Interceptor | None


def authorize(served: ServedApi, request: Any, context: RequestContext) -> Any:
    """The interceptor that does nothing but authorize: by the security of the listener that the caller came over."""
    security = context.caller.security
    return served.handle(request, context) if security is None else security.handle(served, request, context)
