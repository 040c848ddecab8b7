"""The port for SASL mechanisms: tokens in, challenges out, at the end a principal or a refusal.

A mechanism is an `Authenticator`; each connection gets a `Dialogue` of its own, which takes
the client's tokens in order. `step` answers at once, or returns a coroutine of the answer where it has to wait, as for
a key that is fetched; the connection's next request waits for it.

Rule 1: a failure says nothing that helps to guess. `Refused.reason` goes to the log; the client gets the same answer
        for every fault.
Rule 2: secrets are compared in constant time, and an unknown name takes as long as a wrong password.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeAlias

from msgspec import Struct


class Principal(Struct, frozen=True):
    """An authenticated identity: `User:alice`."""

    name: str
    kind: str = "User"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""Every client of a listener without authentication."""


class Challenge(Struct, frozen=True):
    """The exchange continues: the client's next token is expected."""

    token: bytes
    refusal: str = ""
    """Why the client is refused, where only its acknowledgement is still expected; for the log."""


class Accepted(Struct, frozen=True):
    """The client is authenticated; `token` is the last message, where the mechanism has one."""

    principal: Principal
    token: bytes = b""
    expires_at_s: float | None = None
    """When the credential ends, in seconds since 1970; None where it does not."""


class Refused(Struct, frozen=True):
    """The client is refused; the reason is for the log, and empty where a challenge had it."""

    reason: str
    message: str = ""
    """What the client is answered in place of the usual sentence; nothing that helps to guess."""


Step: TypeAlias = Challenge | Accepted | Refused
Outcome: TypeAlias = Step | Coroutine[Any, Any, Step]
"""A step, or the coroutine of one that has to wait."""


class Dialogue(Protocol):
    """One client's authentication; not stepped again after `Accepted` or `Refused`."""

    def step(self, token: bytes) -> Outcome: ...


class Authenticator(Protocol):
    """A SASL mechanism."""

    @property
    def mechanism(self) -> str:
        """Its name in the protocol, such as `PLAIN`."""

    def begin(self) -> Dialogue:
        """A new client's dialogue."""
