"""Bearer tokens: a signed JWT (RFC 7519, 9068) of an identity provider, its keys, and the verdict about it. Pure.

A token is `header.claims.signature`, each in base64url. The keys come from the provider's JWKS document (RFC 7517);
`key_refresh` decides when it is fetched. PyJWT reads keys and checks signatures; all else is checked here, with the
time as an argument.

Rule 1: the key decides by which algorithms a signature may be checked, the token only chooses among them. All of them
        are asymmetric: neither `none` nor a public key as a shared secret can pass.
Rule 2: nothing that a token names is fetched or trusted: `jku`, `x5u`, `jwk` and `x5c` are ignored, `crit` is refused.
Rule 3: claims are read after the signature was right.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError
from msgspec import Struct

from qanat.model.errors import QanatError
from qanat.security.oauthbearer import LONGEST_TOKEN_BYTES, InvalidToken, ValidToken

_RSA_BITS_MIN = 2048
_KEYS_MAX = 100
_LONGEST_KEY_ID = 1000
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}
_ALGORITHMS: Mapping[str, Algorithm] = {
    name: one for name, one in get_default_algorithms().items() if name in {*_RSA, "ES256", "ES384", "ES512", "EdDSA"}
}
_TOKEN = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_LATEST_S = 2**53


class UnusableKeysError(QanatError):
    """A JWKS document without a key that tokens may be checked with."""


class TokenRules(Struct, frozen=True):
    """What is required of a token besides its signature."""

    audiences: tuple[str, ...] = ()
    """One of them must be in `aud`; a token for other audiences is refused, also where none is expected."""
    issuer: str | None = None
    clock_skew_s: float = 30.0
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class UnknownKey(NamedTuple):
    """The token names a key that is not among the known ones: a newer one, or none."""

    key_id: str


class _SigningKey(NamedTuple):
    algorithms: tuple[str, ...]
    key: Any


class _Header(Struct):
    alg: str
    kid: str | None = None
    crit: Any = None
    b64: Any = None


_read_header = msgspec.json.Decoder(_Header).decode
_read_claims = msgspec.json.Decoder(dict[str, Any]).decode


class SigningKeys:
    """The public keys of an identity provider, by their ids."""

    def __init__(self, keys: Iterable[tuple[str | None, _SigningKey]]) -> None:
        self._keys = list(keys)

    @property
    def ids(self) -> list[str]:
        return [key_id for key_id, _ in self._keys if key_id is not None]

    def find(self, key_id: str | None, algorithm: str) -> _SigningKey | None:
        """The key of that id and algorithm; without an id the only key there is."""
        if key_id is None:
            return self._keys[0][1] if len(self._keys) == 1 and algorithm in self._keys[0][1].algorithms else None
        return next((key for known, key in self._keys if known == key_id and algorithm in key.algorithms), None)


Verdict: TypeAlias = ValidToken | InvalidToken | UnknownKey


def read_keys(document: bytes) -> SigningKeys:
    """The keys of a JWKS document; keys of other kinds and for other uses are left out.

    Raises `UnusableKeysError` where no key is left.
    """
    try:
        rows = msgspec.json.decode(document, type=_Jwks).keys
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UnusableKeysError("it is no JWKS document") from None
    if len(rows) > _KEYS_MAX:
        raise UnusableKeysError(f"it has {len(rows)} keys, more than {_KEYS_MAX}")
    found = [(row.get("kid"), key) for row in rows if (key := _key_of(row)) is not None]
    keys = SigningKeys((key_id if isinstance(key_id, str) else None, key) for key_id, key in found)
    if not found:
        raise UnusableKeysError("it has no public RSA, EC or Ed25519 key for signatures")
    return keys


class _Jwks(Struct):
    keys: list[dict[str, Any]]


def _key_of(row: dict[str, Any]) -> _SigningKey | None:
    kind, curve = row.get("kty"), row.get("crv")
    if kind == "RSA":
        algorithms: tuple[str, ...] = _RSA
    elif kind in ("EC", "OKP") and isinstance(curve, str):
        algorithms = _BY_CURVE.get(curve, ())
    else:
        return None
    if "alg" in row:
        algorithms = tuple(name for name in algorithms if name == row["alg"])
    # A private key has no business in a published document, and is no key that only the provider has.
    if not algorithms or row.get("use", "sig") != "sig" or "d" in row:
        return None
    try:
        key = _ALGORITHMS[algorithms[0]].from_jwk(row)
    except (PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and key.key_size < _RSA_BITS_MIN:
        return None
    return _SigningKey(algorithms, key)


def check_token(token: bytes, keys: SigningKeys, rules: TokenRules, now_s: float) -> Verdict:
    """The verdict about a token; a reason never shows the token."""
    if len(token) > LONGEST_TOKEN_BYTES:
        return InvalidToken("the token is too long")
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return InvalidToken("the token is not a signed JWT")
    try:
        header = _read_header(_decoded(parts[1]))
        signature = _decoded(parts[3])
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return InvalidToken("the token's header cannot be read")
    if header.crit is not None or header.b64 is not None:
        return InvalidToken("the token's header has extensions that are not understood")
    if header.alg not in _ALGORITHMS:
        return InvalidToken(f"the token's algorithm {header.alg[:20]!r} is not accepted")
    if header.kid is not None and len(header.kid) > _LONGEST_KEY_ID:
        return InvalidToken("the token's key id is too long")
    key = keys.find(header.kid, header.alg)
    if key is None:
        if header.kid is None:
            return InvalidToken("the token names no key")
        if header.kid in keys.ids:
            return InvalidToken(f"the token's algorithm {header.alg} is not that of its key")
        return UnknownKey(header.kid)
    if not _ALGORITHMS[header.alg].verify(token[: parts.end(2)], key.key, signature):
        return InvalidToken("the token's signature is wrong")
    try:
        claims = _read_claims(_decoded(parts[2]))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return InvalidToken("the token's claims cannot be read")
    return _check_claims(claims, rules, now_s)


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> ValidToken | InvalidToken:
    fault = _wrong_time(claims, rules.clock_skew_s, now_s) or _wrong_party(claims, rules)
    if fault is not None:
        return InvalidToken(fault)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        return InvalidToken(f"the token has no name in {rules.subject_claim}")
    scopes = _texts(claims.get(rules.scope_claim, ()))
    if scopes is None:
        return InvalidToken(f"the token's {rules.scope_claim} is neither text nor a list of texts")
    expires_s = float(claims["exp"])
    # One that is accepted only because clocks differ lasts as long as it would be accepted.
    return ValidToken(subject, expires_s if now_s < expires_s else expires_s + rules.clock_skew_s, scopes)


def _wrong_time(claims: Mapping[str, Any], skew_s: float, now_s: float) -> str | None:
    for name in ("exp", "iat"):
        if not _is_time(claims.get(name)):
            return f"the token has no time in {name}"
    if now_s - skew_s >= claims["exp"]:
        return "the token has expired"
    if "nbf" in claims:
        if not _is_time(claims["nbf"]):
            return "the token has no time in nbf"
        if now_s + skew_s < claims["nbf"]:
            return "the token is not valid yet"
    return None


def _wrong_party(claims: Mapping[str, Any], rules: TokenRules) -> str | None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return "the token has another issuer, or none"
    audiences = _texts(claims.get("aud", ()))
    if audiences is None:
        return "the token's aud is neither text nor a list of texts"
    if (audiences or rules.audiences) and not any(one in rules.audiences for one in audiences):
        return "the token is for another audience, or for none"
    return None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST_S


def _texts(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None


def _decoded(text: bytes) -> bytes:
    """Base64url without padding, in its one canonical spelling."""
    decoded = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != text:
        raise ValueError("not canonical")
    return decoded
