"""Sessions of browsers: who signed in at the console, by a cookie.

A browser cannot send `Authorization` with everything that a page does (`EventSource`), and a page must not keep a
password. So signing in exchanges a password, token or API key for a cookie that scripts cannot read. A session acts as
its user and nothing else: rules decide about each of its requests as about any other.

Rule 1: a session belongs to the node that began it, in memory: another node asks its browser to sign in there.
Rule 2: a session ends with what it was begun with: a changed or removed password, an expired token, a removed API key.
Rule 3: a cookie counts only for pages of this address: requests that other pages cause are refused, whatever
        `http.cors.allowed.origins` says, and writes must name their origin (`exchange.refuse_other_sites`).
"""

from __future__ import annotations

import hashlib
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from qanat.security.authentication import Accepted
    from qanat.servers.http.authentication import HttpAuthentication
    from qanat.servers.http.caller import HttpCaller

LIFETIME_S = 12 * 3600
IDLE_S = 3600
_OPEN_MAX = 10_000
"""Sessions of a node; beginning another one ends the oldest."""
_NAME = "qanat-session"


class Session:
    """A user that signed in."""

    def __init__(self, accepted: Accepted, api_key: str, proof: object, authentication: HttpAuthentication) -> None:
        self.accepted = accepted
        self.api_key = api_key
        self._proof = proof
        self._authentication = authentication
        self._used_s = self._began_s = time.monotonic()
        self.is_ended = False

    def __repr__(self) -> str:
        return f"<Session of {self.accepted.principal}>"

    @property
    def is_valid(self) -> bool:
        now_s = time.monotonic()
        if self.is_ended or now_s - self._began_s > LIFETIME_S or now_s - self._used_s > IDLE_S:
            return False
        return self._proof == self._authentication.proof_of(self.accepted.principal)

    def use(self) -> None:
        self._used_s = time.monotonic()


class Sessions:
    """The sessions of this node."""

    def __init__(self, authentication: HttpAuthentication) -> None:
        self._authentication = authentication
        self._open: dict[bytes, Session] = {}
        """By the hash of their token: a copy of the memory signs in nobody."""

    def begin(self, accepted: Accepted, caller: HttpCaller, scope: Mapping[str, Any]) -> bytes:
        """Begin a session; returns its `Set-Cookie`."""
        if len(self._open) >= _OPEN_MAX:
            self._open = {digest: one for digest, one in self._open.items() if one.is_valid}
        if len(self._open) >= _OPEN_MAX:
            self._open.pop(next(iter(self._open))).is_ended = True
        token = secrets.token_urlsafe(32)
        proof = self._authentication.proof_of(accepted.principal)
        self._open[_digest(token)] = Session(accepted, caller.api_key, proof, self._authentication)
        return _cookie(scope, token, LIFETIME_S)

    def find(self, scope: Mapping[str, Any]) -> Session | None:
        """The session of a request; None where it has none that is valid."""
        token = _token(scope)
        found = None if token is None else self._open.get(_digest(token))
        if found is None or token is None:
            return None
        if not found.is_valid:
            self._open.pop(_digest(token)).is_ended = True
            return None
        found.use()
        return found

    def end(self, scope: Mapping[str, Any]) -> bytes:
        """End the session of a request, if it has one; returns the `Set-Cookie` that removes it."""
        token = _token(scope)
        found = None if token is None else self._open.pop(_digest(token), None)
        if found is not None:
            found.is_ended = True
        return _cookie(scope, "", 0)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def cookie_name(scope: Mapping[str, Any]) -> str:
    """`__Host-` binds a cookie to this host, and needs TLS. Cookies ignore ports: the name tells the brokers of one
    machine apart."""
    server = scope.get("server")
    name = f"{_NAME}-{server[1]}" if server else _NAME
    return f"__Host-{name}" if scope["scheme"] == "https" else name


def _token(scope: Mapping[str, Any]) -> str | None:
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(cookie_name(scope))
            except CookieError:
                return None
            return found.value if found is not None and found.value else None
    return None


def _cookie(scope: Mapping[str, Any], token: str, lifetime_s: int) -> bytes:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{cookie_name(scope)}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lifetime_s}{secure}".encode()
