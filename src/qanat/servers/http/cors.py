"""Web pages of other origins that may use the broker (CORS): none, unless `http.cors.allowed.origins` names them.

Pages send a password, token or API key themselves: the browser's own credentials stay at home.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qanat.servers.http.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANY = b"*"
_HEADERS = (
    b"authorization, content-encoding, content-type, idempotency-key, last-event-id, traceparent, tracestate, x-api-key"
)
_KEPT_S = b"600"


class AllowedOrigins:
    """The origins whose pages may use the broker."""

    def __init__(self, configured: Sequence[str]) -> None:
        self._allowed = frozenset(origin.encode() for origin in configured)

    def allows(self, origin: bytes) -> bool:
        return origin in self._allowed or ANY in self._allowed

    def admit(self, scope: Mapping[str, Any]) -> bool:
        """Say in the answer that the page may read it; returns whether the request asks for permission only."""
        if not self._allowed:
            return False
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is None or not self.allows(origin):
            return False
        cycle = scope["cycle"]
        cycle.default_headers = [
            *cycle.default_headers,
            (b"access-control-allow-origin", origin),
            (b"vary", b"origin"),
        ]
        return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def permission(methods: str) -> Reply:
    """The answer to a page that asks what it may send."""
    headers = (
        (b"access-control-allow-methods", methods.encode()),
        (b"access-control-allow-headers", _HEADERS),
        (b"access-control-max-age", _KEPT_S),
    )
    return Reply(200, b"", headers=headers)
