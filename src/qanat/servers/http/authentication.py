"""Authentication of HTTP requests: `Authorization: Basic` with the users of the Kafka listener, `Bearer` with tokens,
or an API key.

A password is checked by PLAIN, where the listener offers it, and then by SCRAM: a worker computes what the password
would have been stored as. That takes milliseconds by design, so a success is remembered for a moment, as long as the
stored credential stays the same. A token is checked as OAUTHBEARER checks it, and remembered as well, until it ends at
the latest.

Rule 1: a wrong password and an unknown name get the same answer, after the same delay.
Rule 2: a client that failed too often is refused with 429 before its password is looked at (`servers.login_guard`),
        whether the password would be right or not.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING

from qanat.security.api_keys import key_id
from qanat.security.authentication import ANONYMOUS, Accepted, Authenticator, Principal
from qanat.security.oauthbearer import InvalidToken, OauthBearer, bearer_of
from qanat.security.scram import Scram, ScramVerifier
from qanat.servers.http.api_keys import ApiKeyImage, api_key_in, is_in_force, shown, stored_key
from qanat.servers.http.problems import Problem
from qanat.servers.login_guard import waiting_message
from qanat.telemetry.events import RateLimitedEvent

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.login_guard import LoginGuard

_BASIC = (b"www-authenticate", b'Basic realm="qanat", charset="UTF-8"')
_BEARER = (b"www-authenticate", b'Bearer realm="qanat"')
_INVALID_TOKEN = (b"www-authenticate", b'Bearer realm="qanat", error="invalid_token"')
_REFUSAL_DELAY_S = 0.1
"""As on the Kafka listener: it slows guessing."""
_CLOSE = (b"connection", b"close")
_REMEMBERED_S = 30.0
_REMEMBERED_MAX = 1000
_CHECKS_AT_ONCE = 4
"""Passwords that are computed at the same time; others wait for them."""


class HttpAuthentication:
    """Finds the principal of a request; `mechanisms` is None where clients need not authenticate."""

    def __init__(
        self,
        mechanisms: Mapping[str, Authenticator] | None,
        guard: LoginGuard | None = None,
        image: ApiKeyImage | None = None,
    ) -> None:
        self.is_required = mechanisms is not None
        offered = mechanisms or {}
        self._plain = offered.get("PLAIN")
        self._scrams = [one for one in offered.values() if isinstance(one, Scram)]
        self._bearer = next((one for one in offered.values() if isinstance(one, OauthBearer)), None)
        self._has_passwords = self._plain is not None or bool(self._scrams)
        self._challenge = (*((_BASIC,) if self._has_passwords else ()), *((_BEARER,) if self._bearer else ()))
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, tuple[float, ScramVerifier]] = {}
        self._tokens: dict[bytes, tuple[float, Accepted]] = {}
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._guard = guard
        self._image = image
        self._evaluating: Counter[str] = Counter()
        """Passwords that are computed now, by address."""
        self._log_failed = RateLimitedEvent("authentication failed")

    async def authenticate(self, authorization: bytes | None, caller: HttpCaller) -> Accepted:
        """The principal of a request, and when its token ends; raises a problem where authentication fails."""
        if not self.is_required:
            return Accepted(ANONYMOUS)
        if authorization is not None and (key := api_key_in(authorization)) is not None:
            return await self._by_key(key, caller)
        if not self._challenge:
            raise Problem(
                403,
                "this broker authenticates by mechanisms that HTTP cannot carry; add PLAIN, SCRAM-SHA-256, "
                "SCRAM-SHA-512 or OAUTHBEARER to sasl.enabled.mechanisms",
            )
        if authorization is None:
            forms = ", ".join(header[1].split()[0].decode() for header in self._challenge)
            raise Problem(
                401, f"authentication is needed: send Authorization: {forms}, or an API key", headers=self._challenge
            )
        is_bearer = authorization[:7].lower() == b"bearer "
        if self._bearer is not None and (is_bearer or not self._has_passwords):
            return await self._by_token(self._bearer, bearer_of(authorization), caller)
        return Accepted(await self._by_password(authorization, caller))

    async def _by_password(self, authorization: bytes, caller: HttpCaller) -> Principal:
        name, password = _name_and_password(authorization, self._challenge)
        user = name.decode(errors="replace")
        self._refuse_limited(caller, user)
        if not self._is_remembered(name, password):
            async with self._checks:
                # Others of this address may have failed while this one waited for its turn.
                self._refuse_limited(caller, user)
                is_right = await self._evaluate(name, password, caller.host)
                self._note(caller, user, f"unknown name or wrong password for {user[:100]!r}", is_right=is_right)
            if not is_right:
                await asyncio.sleep(_REFUSAL_DELAY_S)
                raise Problem(401, "name or password is wrong", headers=(*self._challenge, _CLOSE))
        return Principal(user)

    def proof_of(self, principal: Principal) -> object:
        """What a user's passwords are checked with now: a session ends when that changes."""
        return tuple(scram.known_or_fake(principal.name)[0] for scram in self._scrams)

    def lost(self, caller: HttpCaller) -> Problem | None:
        """Why the credentials of a client that was let in do not count any more; None while they do."""
        if caller.session is not None and not caller.session.is_valid:
            return Problem(401, "the session has ended: sign in again")
        if caller.api_key and (self._image is None or not is_in_force(caller.api_key, caller.principal, self._image)):
            return Problem(
                401, "the API key was removed or has expired: continue from the last cursor with another one"
            )
        if has_ended(caller.expires_at_s):
            return Problem(401, "the token has expired: continue from the last cursor with another one")
        return None

    async def _by_key(self, key: str, caller: HttpCaller) -> Accepted:
        name = shown(key)
        self._refuse_limited(caller, name)
        found = None if self._image is None else stored_key(key, self._image)
        self._note(caller, name, f"unknown or expired API key {name!r}", is_right=found is not None)
        if found is None:
            await asyncio.sleep(_REFUSAL_DELAY_S)
            raise Problem(401, "the API key is unknown or has expired", headers=(*self._challenge, _CLOSE))
        caller.api_key = key_id(key) or ""
        return Accepted(Principal(found.user))

    async def _by_token(self, mechanism: OauthBearer, token: bytes | None, caller: HttpCaller) -> Accepted:
        if token is None:
            raise Problem(401, "Authorization is not of the form Bearer token", headers=self._challenge)
        digest = hmac.digest(self._key, token, "sha256")
        known_until, known = self._tokens.get(digest, (0.0, None))
        if known is not None and time.monotonic() < known_until and not has_ended(known.expires_at_s):
            return known
        self._refuse_limited(caller, "")
        verdict = mechanism.tokens.check(token)
        if isinstance(verdict, Coroutine):
            verdict = await verdict
        if isinstance(verdict, InvalidToken):
            self._note(caller, "", verdict.reason, is_right=False)
            await asyncio.sleep(_REFUSAL_DELAY_S)
            raise Problem(401, "the token is not valid here", headers=(_INVALID_TOKEN, _CLOSE))
        self._note(caller, "", "", is_right=True)
        accepted = Accepted(Principal(verdict.name), expires_at_s=verdict.expires_at_s)
        if len(self._tokens) >= _REMEMBERED_MAX:
            self._tokens.clear()
        self._tokens[digest] = time.monotonic() + _REMEMBERED_S, accepted
        return accepted

    def _refuse_limited(self, caller: HttpCaller, user: str) -> None:
        """Refuse a client that failed too often."""
        if self._guard is None:
            return
        wait_s = self._guard.wait_s(caller, user, self._evaluating[caller.host])
        if wait_s:
            raise Problem(429, waiting_message(wait_s), headers=((b"retry-after", b"%d" % wait_s), _CLOSE))

    def _note(self, caller: HttpCaller, user: str, fault: str, *, is_right: bool) -> None:
        if not is_right:
            self._log_failed(peer=caller.peer, reason=fault, server="http")
        if self._guard is not None:
            (self._guard.note_succeeded if is_right else self._guard.note_failed)(caller, user)

    async def _evaluate(self, name: bytes, password: bytes, host: str) -> bool:
        """Whether the password is right; counted as an evaluation of this address meanwhile."""
        if self._plain is not None:
            step = self._plain.begin().step(b"\0".join((b"", name, password)))
            if isinstance(step, Coroutine):
                step = await step
            if isinstance(step, Accepted):
                return True
        self._evaluating[host] += 1
        try:
            return await self._is_scram_password(name, password)
        finally:
            self._evaluating[host] -= 1
            if not self._evaluating[host]:
                del self._evaluating[host]

    async def _is_scram_password(self, name_bytes: bytes, password_bytes: bytes) -> bool:
        try:
            name, password = name_bytes.decode(), password_bytes.decode()
        except UnicodeDecodeError:
            return False
        for scram in self._scrams:
            verifier, _ = scram.known_or_fake(name)
            if await asyncio.to_thread(scram.is_password, name, password):
                self._remember(self._token(scram, name_bytes, password_bytes), verifier)
                return True
        return False

    def _is_remembered(self, name: bytes, password: bytes) -> bool:
        """Whether this password was right a moment ago, and the stored credential is still the same."""
        for scram in self._scrams if self._remembered else ():
            known_until, known = self._remembered.get(self._token(scram, name, password), (0.0, None))
            if known is not None and time.monotonic() < known_until:
                return known == scram.known_or_fake(name.decode())[0]
        return False

    def _token(self, scram: Scram, name: bytes, password: bytes) -> bytes:
        return hmac.digest(self._key, b"\0".join((scram.mechanism.encode(), name, password)), "sha256")

    def _remember(self, token: bytes, verifier: ScramVerifier) -> None:
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[token] = time.monotonic() + _REMEMBERED_S, verifier


def has_ended(expires_at_s: float | None) -> bool:
    """Whether a credential with this end is over."""
    return expires_at_s is not None and time.time() >= expires_at_s


def _name_and_password(authorization: bytes, challenge: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, bytes]:
    scheme, _, credentials = authorization.partition(b" ")
    try:
        if scheme.lower() != b"basic":
            raise ValueError
        name, separator, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
        if not separator:
            raise ValueError
    except (ValueError, binascii.Error):
        raise Problem(401, "Authorization is not of the form Basic base64(name:password)", headers=challenge) from None
    return name, password
