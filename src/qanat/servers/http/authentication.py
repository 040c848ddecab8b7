"""Authentication of HTTP requests: `Authorization: Basic` with the users of the Kafka listener.

A password is checked by PLAIN, where the listener offers it, and then by SCRAM: a worker computes what the password
would have been stored as. That takes milliseconds by design, so a success is remembered for a moment, as long as the
stored credential stays the same.

Rule: a wrong password and an unknown name get the same answer, after the same delay.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Mapping

from qanat.security.authentication import ANONYMOUS, Accepted, Authenticator, Principal
from qanat.security.scram import Scram, ScramVerifier
from qanat.servers.http.problems import Problem

_CHALLENGE = ((b"www-authenticate", b'Basic realm="qanat", charset="UTF-8"'),)
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
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, tuple[float, ScramVerifier]] = {}
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    async def principal_of(self, authorization: bytes | None) -> Principal:
        """The principal of a request; raises a problem where authentication fails."""
        if not self.is_required:
            return ANONYMOUS
        if self._plain is None and not self._scrams:
            raise Problem(
                403,
                "this broker authenticates by mechanisms that HTTP cannot carry; add PLAIN, SCRAM-SHA-256 or "
                "SCRAM-SHA-512 to sasl.enabled.mechanisms",
            )
        if authorization is None:
            raise Problem(401, "authentication is needed: send Authorization: Basic", headers=_CHALLENGE)
        name, password = _name_and_password(authorization)
        if self._plain is not None:
            step = self._plain.begin().step(b"\0".join((b"", name, password)))
            if isinstance(step, Accepted):
                return step.principal
        if await self._is_scram_password(name, password):
            return Principal(name.decode())
        await asyncio.sleep(_REFUSAL_DELAY_S)
        raise Problem(401, "name or password is wrong", headers=_CHALLENGE)

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


def _name_and_password(authorization: bytes) -> tuple[bytes, bytes]:
    scheme, _, credentials = authorization.partition(b" ")
    try:
        if scheme.lower() != b"basic":
            raise ValueError
        name, separator, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
        if not separator:
            raise ValueError
    except (ValueError, binascii.Error):
        raise Problem(401, "Authorization is not of the form Basic base64(name:password)", headers=_CHALLENGE) from None
    return name, password
