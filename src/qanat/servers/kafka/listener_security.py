"""The gate of a listener: who is let in, and who decides what they may do.

Made where a listener asks for authentication, or an authoriser is configured. A listener without one
serves everybody everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qanat.api.api_table import ServedApi
from qanat.api.authorization import AccessCheck, handle_authorized
from qanat.api.authorization_table import AUTHORIZATION_RULES
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Authenticator, Principal
from qanat.security.authorization import Authorizer
from qanat.security.sasl_exchange import SaslExchange


def _nothing() -> None:
    pass


class ListenerSecurity:
    """One listener's. `mechanisms` is None where nobody has to authenticate."""

    def __init__(
        self,
        mechanisms: Mapping[str, Authenticator] | None = None,
        authorizer: Authorizer | None = None,
        super_users: tuple[str, ...] = (),
    ) -> None:
        self.mechanisms = mechanisms
        self.authorizer = authorizer
        self._super_users = super_users

    def begin(self) -> SaslExchange | None:
        """What a new connection has to go through first, if anything."""
        return None if self.mechanisms is None else SaslExchange(self.mechanisms)

    def access(
        self, broker: Broker, principal: Principal, host: str, version: int, hang_up: Callable[[], None] = _nothing
    ) -> AccessCheck:
        """Somebody, to be asked about."""
        assert self.authorizer is not None, "an authoriser is configured"
        return AccessCheck(self.authorizer, self._super_users, principal, host, version, broker, hang_up)

    def ask(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        """A request, as far as its asker is allowed to make it; the dispatcher's interceptor."""
        guard = AUTHORIZATION_RULES.get(served.key)
        if guard is None:
            raise MalformedMessageError(f"nobody may ask for {served.api.name}: it has no rule of authorisation")
        connection = context.caller
        access = self.access(context.broker, connection.principal, connection.host, context.version, connection.close)
        context.visibility = access.visibility
        return handle_authorized(guard, lambda: served.handle(request, context), request, access)
