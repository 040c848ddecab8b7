"""The SASL exchange of one connection, in Kafka's protocol.

    SaslHandshake v1 (mechanism) -> SaslAuthenticate (token) ... -> authenticated
    SaslHandshake v0 (mechanism) -> bare tokens in frames of their own ... -> authenticated

A session may have an end: that of the client's credential, or the longest time that the listener allows (KIP-368). The
client then authenticates again on the same connection, by an exchange that `renewal` makes:

    SaslHandshake (the same mechanism) -> SaslAuthenticate (token) ... -> authenticated until a later end

Rule 1: before the end, only ApiVersions and these two are answered; anything else ends the connection.
Rule 2: a handshake may be repeated after an unknown mechanism, and not otherwise.
Rule 3: a renewal has the mechanism and the principal of the exchange before; a client cannot become another one.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from enum import Enum, auto
from typing import Any

from qanat.security import plain, scram
from qanat.security.authentication import Accepted, Authenticator, Dialogue, Outcome, Principal, Refused, Step


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

    __slots__ = (
        "_dialogue",
        "_expires_at_s",
        "_max_ms",
        "_mechanism",
        "_mechanisms",
        "_renews",
        "claimed_name",
        "principal",
        "reason",
        "stage",
    )

    def __init__(self, mechanisms: Mapping[str, Authenticator], max_ms: int = 0) -> None:
        """`max_ms` is the longest session; 0 where only the client's credential ends it."""
        self._mechanisms = mechanisms
        self._max_ms = max_ms
        self._mechanism = ""
        self._renews: Principal | None = None
        self._dialogue: Dialogue | None = None
        self._expires_at_s: float | None = None
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

    def lifetime_ms(self, now_s: float) -> int:
        """How long the client stays authenticated; 0 where that has no end."""
        if self._expires_at_s is None:
            return self._max_ms
        rest_ms = max(1, int((self._expires_at_s - now_s) * 1000))
        return min(rest_ms, self._max_ms) if self._max_ms else rest_ms

    def renewal(self) -> SaslExchange:
        """The exchange by which this client authenticates again (rule 3)."""
        assert self.is_authenticated
        renewal = SaslExchange({self._mechanism: self._mechanisms[self._mechanism]}, self._max_ms)
        renewal._renews = self.principal
        return renewal

    @property
    def is_renewal(self) -> bool:
        return self._renews is not None

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

    def step(self, token: bytes) -> Outcome:
        """Process the client's next token; the next one comes after a coroutine has ended."""
        assert self._dialogue is not None, "a mechanism was chosen"
        outcome = self._dialogue.step(token)
        return self._later(outcome) if isinstance(outcome, Coroutine) else self._note(outcome)

    async def _later(self, step: Coroutine[Any, Any, Step]) -> Step:
        return self._note(await step)

    def _note(self, step: Step) -> Step:
        if isinstance(step, Accepted) and self._renews not in (None, step.principal):
            step = Refused(f"{self._renews} authenticated again as {step.principal}")
        if isinstance(step, Accepted):
            self.stage = Stage.AUTHENTICATED
            self.principal = step.principal
            self._expires_at_s = step.expires_at_s
        elif isinstance(step, Refused):
            self.refuse(step)
        return step
