"""The mechanism PLAIN (RFC 4616): one token with a name and a password.

The password is sent in clear text: use it on loopback, or on a trusted network.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from qanat.security.authentication import Accepted, Principal, Refused, Step

MECHANISM = "PLAIN"
_LONGEST_TOKEN_BYTES = 16 * 1024
_NO_PASSWORD = "\0"
"""A password that no token can carry: compared with where the name is unknown."""


def claimed_name(token: bytes) -> str:
    """The name that a token claims, whether its password is right or not; empty where there is none."""
    if len(token) > _LONGEST_TOKEN_BYTES:
        return ""
    parts = token.split(b"\0")
    return parts[1].decode(errors="replace") if len(parts) == 3 else ""


class Plain:
    """Accepts the names and passwords in `passwords`."""

    mechanism = MECHANISM

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)

    def begin(self) -> PlainDialogue:
        return PlainDialogue(self._passwords)


class PlainDialogue:
    """A single step."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, token: bytes) -> Step:
        if len(token) > _LONGEST_TOKEN_BYTES:
            return Refused("the token is too long")
        try:
            parts = token.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            return Refused("the token is not UTF-8")
        if len(parts) != 3:
            return Refused("the token is not authzid, name and password")
        claimed, name, password = parts
        if not name or not password:
            return Refused("name or password is empty")
        known = self._passwords.get(name)
        expected = _NO_PASSWORD if known is None else known
        is_right = compare_digest(password.encode(), expected.encode())
        if not is_right:
            return Refused(f"unknown name or wrong password for {name!r}")
        if claimed and claimed != name:
            return Refused(f"{name!r} asked to act as {claimed!r}, which is not allowed")
        return Accepted(Principal(name))
