"""The SASL exchange of one connection, in Kafka's protocol.

    SaslHandshake v1 (mechanism) -> SaslAuthenticate (token) ... -> authenticated
    SaslHandshake v0 (mechanism) -> bare tokens in frames of their own ... -> authenticated

Rule 1: before the end, only ApiVersions and these two are answered; anything else ends the connection.
Rule 2: a handshake may be repeated after an unknown mechanism, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from qanat.security import plain, scram
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

    __slots__ = ("_dialogue", "_mechanism", "_mechanisms", "claimed_name", "principal", "reason", "stage")

    def __init__(self, mechanisms: Mapping[str, Authenticator]) -> None:
        self._mechanisms = mechanisms
        self._mechanism = ""
        self._dialogue: Dialogue | None = None
        self.stage = Stage.UNAUTHENTICATED
        self.principal: Principal | None = None
        self.reason = ""
        """Why the client was refused, for the log."""
        self.claimed_name = ""
        """The name that the client logs in with, where its mechanism sends one first; it proves nothing."""

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
        self._mechanism = mechanism
        self._dialogue = authenticator.begin()
        self.stage = Stage.BARE if tokens_are_bare else Stage.IN_REQUESTS
        return True

    def note_claim(self, token: bytes) -> None:
        """Note the name that the next token claims; the first one that does counts."""
        if not self.claimed_name:
            if self._mechanism == plain.MECHANISM:
                self.claimed_name = plain.claimed_name(token)
            elif self._mechanism in scram.HASHES:
                self.claimed_name = scram.claimed_name(token)

    def refuse(self, refused: Refused) -> Refused:
        """End the exchange without a look at the client's token."""
        self.stage = Stage.REFUSED
        self.reason = refused.reason
        return refused

    def step(self, token: bytes) -> Step:
        """Process the client's next token."""
        assert self._dialogue is not None, "a mechanism was chosen"
        step = self._dialogue.step(token)
        if isinstance(step, Accepted):
            self.stage = Stage.AUTHENTICATED
            self.principal = step.principal
        elif isinstance(step, Refused):
            self.refuse(step)
        return step
