"""The port for SASL mechanisms: tokens in, challenges out, at the end a principal or a refusal.

A mechanism is an `Authenticator`; each connection gets a `Dialogue` of its own, which is stepped with
the client's tokens in order. Neither waits for anything: what takes long is done before the broker serves.

Rule 1: a failure says nothing that helps to guess. `Refused.reason` goes to the log; the client is told the same
        whatever went wrong.
Rule 2: secrets are compared in constant time, and an unknown name takes as long as a wrong password.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct


class Principal(Struct, frozen=True):
    """Somebody: `User:alice`."""

    name: str
    kind: str = "User"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""Everybody on a listener that asks for no authentication."""


class Challenge(Struct, frozen=True):
    """There is more to say: the client's next token is awaited."""

    token: bytes


class Accepted(Struct, frozen=True):
    """The client is who it says; `token` is the last word, where the mechanism has one."""

    principal: Principal
    token: bytes = b""


class Refused(Struct, frozen=True):
    """The client is not let in; the reason is for the log."""

    reason: str


Step: TypeAlias = Challenge | Accepted | Refused


class Dialogue(Protocol):
    """One client's authentication; not stepped again after `Accepted` or `Refused`."""

    def step(self, token: bytes) -> Step: ...


class Authenticator(Protocol):
    """A SASL mechanism."""

    @property
    def mechanism(self) -> str:
        """Its name as clients know it, such as `PLAIN`."""

    def begin(self) -> Dialogue:
        """A new client's dialogue."""
