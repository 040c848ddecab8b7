"""The SASL exchange of one connection, in Kafka's protocol.

    SaslHandshake v1 (mechanism) -> SaslAuthenticate (token) ... -> authenticated
    SaslHandshake v0 (mechanism) -> bare tokens in frames of their own ... -> authenticated

Rule 1: before the end, only ApiVersions and these two are answered; anything else ends the connection.
Rule 2: a handshake may be repeated after an unknown mechanism, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from qanat.security.authentication import Accepted, Authenticator, Dialogue, Principal, Refused, Step


class Stage(Enum):
    """The stages of an exchange."""

    UNAUTHENTICATED = auto()
    """No mechanism is chosen yet."""
    IN_REQUESTS = auto()
    """Tokens come in SaslAuthenticate."""
    BARE = auto()
    """Tokens come in frames of their own (SaslHandshake v0)."""
    AUTHENTICATED = auto()
    REFUSED = auto()


class SaslExchange:
    """The exchange of one connection to a listener with authentication."""

    __slots__ = ("_dialogue", "_mechanisms", "principal", "reason", "stage")

    def __init__(self, mechanisms: Mapping[str, Authenticator]) -> None:
        self._mechanisms = mechanisms
        self._dialogue: Dialogue | None = None
        self.stage = Stage.UNAUTHENTICATED
        self.principal: Principal | None = None
        self.reason = ""
        """Why the client was refused, for the log."""

    @property
    def mechanisms(self) -> list[str]:
        """The available mechanisms."""
        return list(self._mechanisms)

    @property
    def is_authenticated(self) -> bool:
        return self.stage is Stage.AUTHENTICATED

    def choose(self, mechanism: str, *, tokens_are_bare: bool) -> bool:
        """Begin with a mechanism; False where there is none of that name."""
        assert self.stage is Stage.UNAUTHENTICATED, "rule 2"
        authenticator = self._mechanisms.get(mechanism)
        if authenticator is None:
            return False
        self._dialogue = authenticator.begin()
        self.stage = Stage.BARE if tokens_are_bare else Stage.IN_REQUESTS
        return True

    def step(self, token: bytes) -> Step:
        """Process the client's next token."""
        assert self._dialogue is not None, "a mechanism was chosen"
        step = self._dialogue.step(token)
        if isinstance(step, Accepted):
            self.stage = Stage.AUTHENTICATED
            self.principal = step.principal
        elif isinstance(step, Refused):
            self.stage = Stage.REFUSED
            self.reason = step.reason
        return step
