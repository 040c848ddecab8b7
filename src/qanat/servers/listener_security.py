"""The security of a listener: how clients authenticate, and the authorizer that decides what they may do.

It exists where a listener requires authentication or an authorizer is configured. A listener without it serves every
client everything.

Rule: the inter-broker listener grants nothing by itself. With security, a caller acts as a broker there only if its
      principal is a broker's or a super user's, or if the authorizer allows it CLUSTER_ACTION; any other caller is a
      client there as on any listener.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qanat.api.api_table import ServedApi
from qanat.api.authorization import AccessCheck, handle_authorized
from qanat.api.caller import Caller
from qanat.api.permissions import Permissions, PermissionTable
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer, Operation
from qanat.security.sasl_exchange import SaslExchange

if TYPE_CHECKING:
    from qanat.servers.login_guard import LoginGuard


class ListenerSecurity:
    """The security of one listener; `mechanisms` is None where clients do not authenticate by SASL."""

    def __init__(
        self,
        mechanisms: Mapping[str, Authenticator] | None = None,
        authorizer: Authorizer | None = None,
        super_users: tuple[str, ...] = (),
        brokers: tuple[str, ...] | None = None,
        login_guard: LoginGuard | None = None,
        max_reauth_ms: int = 0,
    ) -> None:
        """`brokers` are the principals of brokers; None where every caller of the inter-broker listener is one.

        `max_reauth_ms` is the longest session of an authenticated client; 0 sets no limit.
        """
        self.login_guard = login_guard
        self.mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self.authorizer = authorizer
        self._super_users = super_users if brokers is None else (*super_users, *brokers)
        self._trusts_every_broker = brokers is None
        self._permissions = None if authorizer is None else PermissionTable(authorizer, self._super_users)

    def begin_authentication(self) -> SaslExchange | None:
        """The authentication that a new connection starts with; None where it needs none."""
        return None if self.mechanisms is None else SaslExchange(self.mechanisms, self._max_reauth_ms)

    def note_principal(self, caller: Caller) -> None:
        """Decide whether a caller acts as a broker: at its connection, and once it is authenticated."""
        caller.is_inter_broker = caller.is_over_inter_broker and (
            self._trusts_every_broker or str(caller.principal) in self._super_users
        )

    def permissions(self, caller: Caller) -> Permissions:
        """What a caller may do; it keeps them as long as it has this principal."""
        assert self._permissions is not None, "an authorizer is configured"
        found = caller.permissions = self._permissions.of(caller.principal, caller.host)
        # Equal, and from now on the same: connections of a user share permissions, and each has its own principal.
        caller.principal = found.principal
        return found

    def access(self, broker: Broker, caller: Caller, version: int) -> AccessCheck:
        """What a caller may do with a request of this version."""
        permissions = caller.permissions
        if permissions is None or permissions.principal is not caller.principal:
            permissions = self.permissions(caller)
        return AccessCheck(permissions, caller, version, broker)

    def handle(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        """Handle a request as far as its caller is allowed to make it; the dispatcher's interceptor."""
        caller = context.caller
        permissions, is_known_allowed = caller.permissions, served.is_known_allowed
        if is_known_allowed is not None and permissions is not None and not caller.is_over_inter_broker:
            is_current = permissions.principal is caller.principal
            if is_current and is_known_allowed(request, permissions):
                return served.handle(request, context)
        if served.authorize is None:
            raise MalformedMessageError(f"{served.api.name} is refused: it has no authorization rule")
        access = self.access(context.broker, caller, context.header.api_version)
        if caller.is_over_inter_broker:
            # Decided for every request: the authorizer's rules change while the connection lasts.
            caller.is_inter_broker = access.may_cluster(Operation.CLUSTER_ACTION)
            if caller.is_inter_broker:
                return served.handle(request, context)
        context.access = access
        return handle_authorized(served.authorize, served, request, context, access)
