"""A client's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, 7677), OAUTHBEARER (RFC 7628), as dialogues. Pure.

A dialogue begins with a token of the client; each answer of the broker is passed to `step`, until there is nothing
more to send. In SCRAM the broker, too, proves that it knows the password, and one that cannot is refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Protocol

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

PLAIN = "PLAIN"
_HASHES: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
PASSWORD_MECHANISMS = (PLAIN, *_HASHES)
"""The supported mechanisms of a name and a password."""
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTHBEARER)
"""The supported mechanisms."""
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1_000_000
"""With fewer, a false broker could guess the password cheaply; with more, it could keep us busy."""
_NO_CHANNEL_BINDING = b"n,,"


class NotAuthenticatedError(QanatError):
    """The broker refused our credentials, or failed to prove its own."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class Dialogue(Protocol):
    """One authentication."""

    def begin(self) -> bytes: ...

    def step(self, challenge: bytes) -> bytes | None:
        """The next token; None at the end. Raises `NotAuthenticatedError` where the broker's proof is wrong."""
        ...


def dialogue(mechanism: str, username: str, password: str, nonce: str) -> Dialogue:
    """A dialogue in one of `PASSWORD_MECHANISMS`; `nonce` is printable, random and used once."""
    if mechanism == PLAIN:
        return PlainDialogue(username, password)
    return ScramDialogue(_HASHES[mechanism], username, password, nonce)


class PlainDialogue:
    """Name and password in clear text."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def begin(self) -> bytes:
        return self._token

    def step(self, challenge: bytes) -> bytes | None:
        return None


class BearerDialogue:
    """A token; a broker that refuses it answers with a text, which is acknowledged."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._is_refused = False

    def begin(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def step(self, challenge: bytes) -> bytes | None:
        if self._is_refused:
            raise NotAuthenticatedError("the broker refuses the token")
        if not challenge:
            return None
        self._is_refused = True
        return b"\x01"


class ScramDialogue:
    """Both sides prove that they know the password; neither sends it. Like Kafka's own, it does not normalise text."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}".encode()
        self._signature: bytes | None = None
        """The final answer of a broker that knows the password."""

    def begin(self) -> bytes:
        return _NO_CHANNEL_BINDING + self._first

    def step(self, challenge: bytes) -> bytes | None:
        if self._signature is None:
            return self._prove(challenge)
        answer = _attributes(challenge)
        if "e" in answer:
            raise NotAuthenticatedError(f"the broker refuses: {answer['e'][:100]}")
        import hmac

        if not hmac.compare_digest(_decoded(answer.get("v", "")), self._signature):
            raise NotAuthenticatedError("the broker does not know the password itself: it is not the one it claims")
        return None

    def _prove(self, challenge: bytes) -> bytes:
        given = _attributes(challenge)
        nonce, salt = given.get("r", ""), _decoded(given.get("s", ""))
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise NotAuthenticatedError("the broker's first answer is not one to ours")
        iterations = int(given.get("i", "")) if given.get("i", "").isascii() and given.get("i", "").isdigit() else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise NotAuthenticatedError(
                f"the broker asks for {iterations} iterations, we do {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        # Imported late, like `hmac`: clients without credentials start faster.
        import hashlib

        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._sign(salted, b"Client Key")
        binding = base64.b64encode(_NO_CHANNEL_BINDING).decode()
        final = f"c={binding},r={nonce}".encode()
        spoken = self._first + b"," + challenge + b"," + final
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, self._sign(stored_key, spoken), strict=True))
        self._signature = self._sign(self._sign(salted, b"Server Key"), spoken)
        return final + b",p=" + base64.b64encode(proof)

    def _sign(self, key: bytes, message: bytes) -> bytes:
        import hmac

        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes) -> dict[str, str]:
    """The `a=value` pairs of a SCRAM message; values may hold further `=`."""
    pairs = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
