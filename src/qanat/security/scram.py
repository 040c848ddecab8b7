"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), the broker's side.

    client  n,,n=alice,r=CLIENT             broker  r=CLIENT+BROKER,s=SALT,i=ITERATIONS
    client  c=biws,r=CLIENT+BROKER,p=PROOF  broker  v=SIGNATURE

The broker keeps a verifier in place of the password: with it, it can check a proof and prove itself, and cannot log in
elsewhere. An exchange costs a few HMACs; only making a verifier from a password takes long (`verifier_of`).

Rule 1: the last nonce is the one that this dialogue sent, and the channel-binding field is the header that the client
        began with: nothing of another exchange can be used again.
Rule 2: an unknown name gets as far as a wrong password, with a salt that stays the same for the name on every broker.
Rule 3: like Kafka, text is not normalised (SASLprep), and channel binding is not offered.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from qanat.security.authentication import Accepted, Challenge, Principal, Refused, Step

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
"""As in Kafka: more would keep clients busy, which compute them at every login."""
SALT_BYTES = 16
_LONGEST_TOKEN_BYTES = 4096
_FIRST = re.compile(
    r"(?P<header>(?P<flag>n|y),(?:a=(?P<acts_as>[^,]+))?,)(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[^,]+).*)"
)
_FINAL = re.compile(r"(?P<unproven>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,.*)?),p=(?P<proof>[^,]+)")
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")


def claimed_name(token: bytes) -> str:
    """The name that a client's first message claims; empty where there is none."""
    if len(token) > _LONGEST_TOKEN_BYTES:
        return ""
    match = _FIRST.fullmatch(token.decode(errors="replace"))
    return "" if match is None else decoded_name(match["name"]) or ""


class ScramVerifier(Struct, frozen=True):
    """What a broker knows of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramVerifier(iterations={self.iterations})"


def verifier_of(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramVerifier:
    """The verifier of a password. It takes milliseconds by design: call it in a worker."""
    return verifier_of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What a client sends to a broker in place of a new password (AlterUserScramCredentials)."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def verifier_of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramVerifier:
    hash_name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    return ScramVerifier(salt, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations)


class Scram:
    """One of the two mechanisms; `find` returns the verifier of a name.

    `secret` returns what salts of unknown names are made from, the same on every broker; `draw_nonce` returns text that
    was never returned before and that no one can guess.
    """

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramVerifier | None],
        secret: Callable[[], bytes],
        draw_nonce: Callable[[], str],
    ) -> None:
        self.mechanism = mechanism
        self._find = find
        self._secret = secret
        self._draw_nonce = draw_nonce

    def begin(self) -> ScramDialogue:
        return ScramDialogue(self, self._draw_nonce())

    def known_or_fake(self, name: str) -> tuple[ScramVerifier, bool]:
        """The verifier of a name, or one that no password fits; and whether it is of a known user."""
        found = self._find(name)
        made = self._fake(name)  # Made for a known name as well: both take as long.
        return (made, False) if found is None else (found, True)

    def _fake(self, name: str) -> ScramVerifier:
        secret, size = self._secret(), hashlib.new(HASHES[self.mechanism]).digest_size
        drawn = hmac.digest(secret, f"{self.mechanism} {name}".encode(), "sha512")
        return ScramVerifier(drawn[:SALT_BYTES], drawn[-size:], drawn[-size:], ITERATIONS_MIN)

    def is_password(self, name: str, password: str) -> bool:
        """Whether this is the user's password, sent in full as in HTTP. It takes milliseconds: call it in a worker."""
        verifier, is_known = self.known_or_fake(name)
        made = verifier_of(self.mechanism, password, verifier.salt, verifier.iterations)
        return hmac.compare_digest(made.stored_key, verifier.stored_key) and is_known


class _First(NamedTuple):
    """What the first two messages have settled."""

    name: str
    header: str
    messages: str
    """The client's without its header, and the broker's."""
    nonce: str
    verifier: ScramVerifier
    is_known: bool


class ScramDialogue:
    """One client's exchange: two messages each."""

    def __init__(self, scram: Scram, nonce: str) -> None:
        self._scram = scram
        self._nonce = nonce
        self._hash = HASHES[scram.mechanism]
        self._first: _First | None = None

    def __repr__(self) -> str:
        return f"ScramDialogue({self._scram.mechanism})"

    def step(self, token: bytes) -> Step:
        if len(token) > _LONGEST_TOKEN_BYTES:
            return Refused("the token is too long")
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            return Refused("the token is not UTF-8")
        return self._answer_first(text) if self._first is None else self._answer_final(text, self._first)

    def _answer_first(self, text: str) -> Step:
        match = _FIRST.fullmatch(text)
        if match is None:
            return Refused("the first message is not one of SCRAM without channel binding")
        name = decoded_name(match["name"])
        acts_as = None if match["acts_as"] is None else decoded_name(match["acts_as"])
        if name is None or not _NONCE.fullmatch(match["nonce"]):
            return Refused("the first message has a malformed name or nonce")
        if acts_as not in (None, name):
            return Refused(f"{name!r} asked to act as another principal, which is not allowed")
        if ",tokenauth=true" in match["bare"]:
            return Refused("delegation tokens are not served")
        verifier, is_known = self._scram.known_or_fake(name)
        nonce = match["nonce"] + self._nonce
        answer = f"r={nonce},s={base64.b64encode(verifier.salt).decode()},i={verifier.iterations}"
        self._first = _First(name, match["header"], f"{match['bare']},{answer}", nonce, verifier, is_known)
        return Challenge(answer.encode())

    def _answer_final(self, text: str, first: _First) -> Step:
        match = _FINAL.fullmatch(text)
        if match is None:
            return Refused("the final message is not one of SCRAM")
        if not hmac.compare_digest(match["nonce"].encode(), first.nonce.encode()):
            return Refused(f"the final message of {first.name!r} has another nonce")
        if _decoded(match["binding"]) != first.header.encode():
            return Refused(f"the final message of {first.name!r} has another channel binding")
        spoken = f"{first.messages},{match['unproven']}".encode()
        verifier, proof = first.verifier, _decoded(match["proof"])
        is_right = self._is_proof(proof, spoken, verifier)
        if not (is_right and first.is_known):
            return Refused(f"unknown name or wrong password for {first.name!r}")
        signature = base64.b64encode(hmac.digest(verifier.server_key, spoken, self._hash))
        return Accepted(Principal(first.name), b"v=" + signature)

    def _is_proof(self, proof: bytes, spoken: bytes, verifier: ScramVerifier) -> bool:
        signature = hmac.digest(verifier.stored_key, spoken, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), verifier.stored_key)


def decoded_name(text: str) -> str | None:
    """A name as SCRAM writes it, with `=2C` for a comma and `=3D` for an equals sign; None for a malformed one."""
    if re.sub("=2C|=3D", "", text).count("="):
        return None
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
