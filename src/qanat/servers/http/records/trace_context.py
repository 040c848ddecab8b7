"""W3C trace context of an HTTP request, for the headers of the records that it writes.

A request with `traceparent` makes its records children of its span: whoever reads them goes on with the trace, as with
records of the Python client (`client.trace_headers`). The broker itself makes no span. A record that has the header
keeps its own; a `traceparent` that is none is ignored, as the specification says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Exchange
    from qanat.servers.http.records.record_parsing import RawHeaders

PARENT, STATE = b"traceparent", b"tracestate"
_STATE_BYTES_MAX = 512
_PARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_headers(exchange: Exchange) -> RawHeaders:
    """The headers that carry a request's trace; none where it has no valid one."""
    parent = exchange.header(PARENT)
    if parent is None or _PARENT.fullmatch(parent) is None:
        return ()
    state = exchange.header(STATE)
    if state is None or len(state) > _STATE_BYTES_MAX or not (state.isascii() and state.decode().isprintable()):
        return ((PARENT, parent),)
    return ((PARENT, parent), (STATE, state))


def traced(headers: RawHeaders, trace: RawHeaders) -> RawHeaders:
    """A record's headers with the request's trace, unless it has one of its own."""
    if any(name.lower() == PARENT for name, _ in headers):
        return headers
    return (*headers, *trace)
