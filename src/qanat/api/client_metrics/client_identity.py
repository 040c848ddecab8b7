"""A client as subscriptions match it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.caller import software_of
from qanat.broker.runtime.client_metrics import ClientIdentity

if TYPE_CHECKING:
    from qanat.api.request_context import RequestContext


def identity_of(context: RequestContext) -> ClientIdentity:
    caller = context.caller
    name, version = software_of(caller)
    return ClientIdentity(
        context.header.client_id or "",
        name,
        version,
        caller.host,
        caller.peer.rpartition(":")[2],
        str(caller.principal),
    )
