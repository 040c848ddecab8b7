"""Authentication of HTTP requests: `Authorization: Basic` with the users of the Kafka listener, `Bearer` with tokens.

A password is checked by PLAIN, where the listener offers it, and then by SCRAM: a worker computes what the password
would have been stored as. That takes milliseconds by design, so a success is remembered for a moment, as long as the
stored credential stays the same. A token is checked as OAUTHBEARER checks it, and remembered as well, until it ends at
the latest.

Rule: a wrong password and an unknown name get the same answer, after the same delay.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Coroutine, Mapping

from qanat.security.authentication import ANONYMOUS, Accepted, Authenticator, Principal
from qanat.security.oauthbearer import InvalidToken, OauthBearer, bearer_of
from qanat.security.scram import Scram, ScramVerifier
from qanat.servers.http.problems import Problem
from qanat.telemetry.events import RateLimitedEvent

_BASIC = (b"www-authenticate", b'Basic realm="qanat", charset="UTF-8"')
_BEARER = (b"www-authenticate", b'Bearer realm="qanat"')
_INVALID_TOKEN = (b"www-authenticate", b'Bearer realm="qanat", error="invalid_token"')
_REFUSAL_DELAY_S = 0.1
"""As on the Kafka listener: it slows guessing."""
_REMEMBERED_S = 30.0
_REMEMBERED_MAX = 1000
_CHECKS_AT_ONCE = 4
"""Passwords that are computed at the same time; others wait for them."""


class HttpAuthentication:
    """Finds the principal of a request; `mechanisms` is None where clients need not authenticate."""

    def __init__(self, mechanisms: Mapping[str, Authenticator] | None) -> None:
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
        self._log_refused_token = RateLimitedEvent("authentication failed")
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    async def authenticate(self, authorization: bytes | None) -> Accepted:
        """The principal of a request, and when its token ends; raises a problem where authentication fails."""
        if not self.is_required:
            return Accepted(ANONYMOUS)
        if not self._challenge:
            raise Problem(
                403,
                "this broker authenticates by mechanisms that HTTP cannot carry; add PLAIN, SCRAM-SHA-256, "
                "SCRAM-SHA-512 or OAUTHBEARER to sasl.enabled.mechanisms",
            )
        if authorization is None:
            forms = " or ".join(header[1].split()[0].decode() for header in self._challenge)
            raise Problem(401, f"authentication is needed: send Authorization: {forms}", headers=self._challenge)
        is_bearer = authorization[:7].lower() == b"bearer "
        if self._bearer is not None and (is_bearer or not self._has_passwords):
            return await self._by_token(self._bearer, bearer_of(authorization))
        return Accepted(await self._by_password(authorization))

    async def _by_password(self, authorization: bytes) -> Principal:
        name, password = _name_and_password(authorization, self._challenge)
        if self._plain is not None:
            step = self._plain.begin().step(b"\0".join((b"", name, password)))
            if isinstance(step, Coroutine):
                step = await step
            if isinstance(step, Accepted):
                return step.principal
        if await self._is_scram_password(name, password):
            return Principal(name.decode())
        await asyncio.sleep(_REFUSAL_DELAY_S)
        raise Problem(401, "name or password is wrong", headers=self._challenge)

    async def _by_token(self, mechanism: OauthBearer, token: bytes | None) -> Accepted:
        if token is None:
            raise Problem(401, "Authorization is not of the form Bearer token", headers=self._challenge)
        digest = hmac.digest(self._key, token, "sha256")
        known_until, known = self._tokens.get(digest, (0.0, None))
        if known is not None and time.monotonic() < known_until and not has_ended(known.expires_at_s):
            return known
        verdict = mechanism.tokens.check(token)
        if isinstance(verdict, Coroutine):
            verdict = await verdict
        if isinstance(verdict, InvalidToken):
            self._log_refused_token(reason=verdict.reason, server="http")
            await asyncio.sleep(_REFUSAL_DELAY_S)
            raise Problem(401, "the token is not valid here", headers=(_INVALID_TOKEN,))
        accepted = Accepted(Principal(verdict.name), expires_at_s=verdict.expires_at_s)
        if len(self._tokens) >= _REMEMBERED_MAX:
            self._tokens.clear()
        self._tokens[digest] = time.monotonic() + _REMEMBERED_S, accepted
        return accepted

    async def _is_scram_password(self, name_bytes: bytes, password_bytes: bytes) -> bool:
        try:
            name, password = name_bytes.decode(), password_bytes.decode()
        except UnicodeDecodeError:
            return False
        for scram in self._scrams:
            verifier, _ = scram.known_or_fake(name)
            token = hmac.digest(self._key, b"\0".join((scram.mechanism.encode(), name_bytes, password_bytes)), "sha256")
            known_until, known = self._remembered.get(token, (0.0, None))
            if known == verifier and time.monotonic() < known_until:
                return True
            async with self._checks:
                is_right = await asyncio.to_thread(scram.is_password, name, password)
            if is_right:
                self._remember(token, verifier)
                return True
        return False

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
