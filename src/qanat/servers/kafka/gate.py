"""The gate of a listener: who is let in, and who decides what they may do.

Made where a listener asks for authentication, or an authoriser is configured. A listener without one
serves everybody everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qanat.model.errors import MalformedMessageError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.conversation import Conversation
from qanat.servers.kafka.apis import ServedApi
from qanat.servers.kafka.dispatch import Context
from qanat.servers.kafka.guards.asking import Asker, ask_guarded
from qanat.servers.kafka.guards.table import GUARDS


class Gate:
    """One listener's. `mechanisms` is None where nobody has to authenticate."""

    def __init__(
        self,
        mechanisms: Mapping[str, Authenticator] | None = None,
        authorizer: Authorizer | None = None,
        super_users: tuple[str, ...] = (),
    ) -> None:
        self._mechanisms = mechanisms
        self.authorizer = authorizer
        self._super_users = super_users

    def begin(self) -> Conversation | None:
        """What a new connection has to go through first, if anything."""
        return None if self._mechanisms is None else Conversation(self._mechanisms)

    def ask(self, served: ServedApi, request: Any, context: Context) -> Any:
        """A request, as far as its asker is allowed to make it; the dispatcher's interceptor."""
        assert self.authorizer is not None, "an authoriser is configured"
        guard = GUARDS.get(served.key)
        if guard is None:
            raise MalformedMessageError(f"nobody may ask for {served.api.name}: it has no rule of authorisation")
        connection = context.connection
        asker = Asker(
            self.authorizer,
            self._super_users,
            connection.principal,
            connection.host,
            context.version,
            context.broker,
            connection.close,
        )
        return ask_guarded(guard, lambda: served.handle(request, context), request, asker)
