"""The security of a listener: how clients authenticate, and the authorizer that decides what they may do.

It exists where a listener requires authentication or an authorizer is configured. A listener without it serves every
client everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qanat.api.api_table import ServedApi
from qanat.api.authorization import AccessCheck, handle_authorized
from qanat.api.caller import Caller
from qanat.api.parked_access import recheck_when_changed
from qanat.api.permissions import PermissionTable
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.sasl_exchange import SaslExchange


class ListenerSecurity:
    """The security of one listener; `mechanisms` is None where clients need not authenticate."""

    def __init__(
        self,
        mechanisms: Mapping[str, Authenticator] | None = None,
        authorizer: Authorizer | None = None,
        super_users: tuple[str, ...] = (),
    ) -> None:
        self.mechanisms = mechanisms
        self.authorizer = authorizer
        self._permissions = None if authorizer is None else PermissionTable(authorizer, super_users)

    def begin_authentication(self) -> SaslExchange | None:
        """The authentication that a new connection starts with; None where it needs none."""
        return None if self.mechanisms is None else SaslExchange(self.mechanisms)

    def access(self, broker: Broker, caller: Caller, version: int) -> AccessCheck:
        """What a caller may do with a request of this version."""
        assert self._permissions is not None, "an authorizer is configured"
        return AccessCheck(self._permissions.of(caller.principal, caller.host), caller, version, broker)

    def handle(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        """Handle a request as far as its caller is allowed to make it; the dispatcher's interceptor."""
        rule = served.authorize
        if rule is None:
            raise MalformedMessageError(f"{served.api.name} is refused: it has no authorization rule")
        access = self.access(context.broker, context.caller, context.version)
        context.visibility = access.visibility
        recheck = recheck_when_changed(served.key, request, access)
        return handle_authorized(rule, lambda: served.handle(request, context), request, access, recheck)
