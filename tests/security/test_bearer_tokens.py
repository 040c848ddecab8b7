"""Tokens: which of them are accepted, and what forged and foreign ones get."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm
from tests.security.identity_provider import AUDIENCE, ISSUER, KeyPair, claims_of, jwks

from qanat.security.bearer_tokens import (
    TokenRules,
    UnknownKey,
    UnusableKeysError,
    Verdict,
    check_token,
    read_keys,
)
from qanat.security.oauthbearer import InvalidToken, ValidToken

NOW = 1_800_000_000
RULES = TokenRules((AUDIENCE,), ISSUER)
ALGORITHMS = ("RS256", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
PAIRS = {name: KeyPair(f"key-{name}", name) for name in ALGORITHMS}
OURS = PAIRS["RS256"]
KEYS = read_keys(jwks(*PAIRS.values()))


def verdict(token: str | bytes, rules: TokenRules = RULES, now_s: float = NOW) -> Verdict:
    return check_token(token.encode() if isinstance(token, str) else token, KEYS, rules, now_s)


def claims(**more: Any) -> dict[str, Any]:
    return claims_of("alice", NOW, **more)


def refusal(found: Verdict) -> str:
    assert isinstance(found, InvalidToken)
    return found.reason


def signed(payload: object, **header: Any) -> bytes:
    """A token of ours with any header and any claims, also those that PyJWT does not sign."""
    head = {"alg": "RS256", "kid": OURS.key_id, **header}
    text = f"{segment(head)}.{segment(payload)}".encode()
    return text + b"." + segment(RSAAlgorithm(RSAAlgorithm.SHA256).sign(text, OURS.private)).encode()


def segment(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_of_every_algorithm_is_accepted(algorithm: str) -> None:
    assert verdict(PAIRS[algorithm].sign(claims())) == ValidToken("alice", NOW + 3600, ())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_changed_claim_or_signature_is_refused(algorithm: str) -> None:
    header, _, signature = PAIRS[algorithm].sign(claims()).split(".")
    other = segment(claims(sub="root"))
    assert "signature" in refusal(verdict(f"{header}.{other}.{signature}"))
    again = PAIRS[algorithm].sign(claims(jti="2"))
    assert "signature" in refusal(verdict(f"{again.rpartition('.')[0]}.{signature}"))
    assert "signature" in refusal(verdict(f"{again.rpartition('.')[0]}.{segment(b'x')}"))


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
def test_a_token_without_a_signature_is_refused(name: str) -> None:
    head = segment({"alg": name, "kid": OURS.key_id})
    assert "not a signed JWT" in refusal(verdict(f"{head}.{segment(claims())}."))
    assert "is not accepted" in refusal(verdict(f"{head}.{segment(claims())}.AAAA"))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_the_public_key_is_no_shared_secret(algorithm: str) -> None:
    public = OURS.private.public_key()
    forms = [
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
        json.dumps(OURS.row).encode(),
    ]
    text = f"{segment({'alg': algorithm, 'kid': OURS.key_id})}.{segment(claims())}"
    for secret in forms:
        mac = hmac.digest(secret, text.encode(), "sha" + algorithm[2:])
        assert "is not accepted" in refusal(verdict(f"{text}.{segment(mac)}"))


def test_a_key_of_another_algorithm_does_not_check_it() -> None:
    text = f"{segment({'alg': 'RS256', 'kid': 'key-ES256'})}.{segment(claims())}"
    assert "is not that of its key" in refusal(verdict(f"{text}.AAAA"))
    text = f"{segment({'alg': 'PS256', 'kid': OURS.key_id})}.{segment(claims())}"
    assert "is not that of its key" in refusal(verdict(f"{text}.AAAA"))


def test_a_key_of_another_provider_is_unknown_and_its_own_headers_do_not_help() -> None:
    foreign = KeyPair("foreign")
    private, certificate = foreign.row, base64.b64encode(b"certificate").decode()
    own = {"jku": "https://evil.example/keys", "x5u": "https://evil.example/chain", "x5c": [certificate]}

    assert verdict(foreign.sign(claims(), **own, jwk=private)) == UnknownKey("foreign")
    assert "signature" in refusal(verdict(foreign.sign(claims(), **own, jwk=private, kid=OURS.key_id)))


@pytest.mark.parametrize(
    ("extension", "reason"),
    [
        ({"crit": ["exp"], "exp": 1}, "extensions"),
        ({"crit": []}, "extensions"),
        ({"b64": False}, "extensions"),
        ({"kid": "k" * 1001}, "too long"),
        ({"kid": 7}, "header cannot be read"),
        ({"kid": None}, "names no key"),
    ],
)
def test_a_header_with_what_is_not_understood_is_refused(extension: dict[str, Any], reason: str) -> None:
    assert reason in refusal(verdict(signed(claims(), **extension)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"exp": None}, "no time in exp"),
        ({"exp": "tomorrow"}, "no time in exp"),
        ({"exp": True}, "no time in exp"),
        ({"exp": 1e300}, "no time in exp"),
        ({"exp": -1}, "no time in exp"),
        ({"iat": None}, "no time in iat"),
        ({"nbf": "now"}, "no time in nbf"),
        ({"iss": None}, "another issuer"),
        ({"iss": "https://login.example"}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"aud": "qanat2"}, "another audience"),
        ({"aud": ["web", "qana"]}, "another audience"),
        ({"aud": {"qanat": 1}}, "aud is neither"),
        ({"aud": ["qanat", 7]}, "aud is neither"),
        ({"sub": None}, "no name in sub"),
        ({"sub": ""}, "no name in sub"),
        ({"sub": "  "}, "no name in sub"),
        ({"sub": 7}, "no name in sub"),
        ({"scope": 7}, "scope is neither"),
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_named(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal(verdict(signed(claims(**change))))


@pytest.mark.parametrize(("late_s", "is_valid"), [(-1, True), (0, True), (29, True), (30, False), (31, False)])
def test_a_token_is_accepted_until_its_end_and_the_clock_skew(late_s: int, is_valid: bool) -> None:
    found = verdict(OURS.sign(claims()), now_s=NOW + 3600 + late_s)
    if is_valid:
        assert found == ValidToken("alice", NOW + 3600 + (0 if late_s < 0 else 30))
    else:
        assert "expired" in refusal(found)


@pytest.mark.parametrize(("early_s", "is_valid"), [(0, True), (30, True), (31, False)])
def test_a_token_is_accepted_from_its_beginning_and_the_clock_skew_on(early_s: int, is_valid: bool) -> None:
    found = verdict(OURS.sign(claims(nbf=NOW + early_s)))
    if is_valid:
        assert isinstance(found, ValidToken)
    else:
        assert "not valid yet" in refusal(found)


def test_a_token_for_somebody_else_is_refused_where_no_audience_is_expected() -> None:
    assert "another audience" in refusal(verdict(OURS.sign(claims()), TokenRules()))
    assert isinstance(verdict(OURS.sign(claims(aud=None, iss=None)), TokenRules()), ValidToken)


def test_one_audience_of_several_is_enough() -> None:
    rules = TokenRules(("a", "b"), ISSUER)
    assert isinstance(verdict(OURS.sign(claims(aud=["x", "b"])), rules), ValidToken)


def test_name_and_scopes_come_from_the_claims_that_the_rules_name() -> None:
    rules = TokenRules((AUDIENCE,), ISSUER, subject_claim="client_id", scope_claim="scp")
    token = OURS.sign(claims(client_id="billing", scp=["a", "b"]))
    assert verdict(token, rules) == ValidToken("billing", NOW + 3600, ("a", "b"))


@pytest.mark.parametrize(
    "token",
    [b"", b".", b"..", b"a.b", b"a.b.c.d", b"\xff.a.b", b"a. .c", b"e30.e30.e30", b"ew.e30.AAAA", b"W10.e30.AAAA"],
)
def test_text_that_is_no_token_is_refused(token: bytes) -> None:
    assert isinstance(verdict(token), InvalidToken)


def test_only_one_spelling_of_a_token_is_accepted() -> None:
    token = OURS.sign(claims())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # The last character of 256 bytes in base64 has four bits that mean nothing.
    other = token[:-1] + alphabet[alphabet.index(token[-1]) + 1]
    assert isinstance(verdict(token), ValidToken)
    assert isinstance(verdict(other), InvalidToken)
    assert isinstance(verdict(token + "=="), InvalidToken)


def test_a_token_that_is_too_long_is_refused_before_it_is_read() -> None:
    token = OURS.sign(claims(padding="x" * 16_000))
    assert len(token) > 16 * 1024
    assert refusal(verdict(token)) == "the token is too long"


def test_a_deep_token_is_refused() -> None:
    deep = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert "claims cannot be read" in refusal(verdict(signed(deep)))
    assert "header cannot be read" in refusal(verdict(f"{segment(deep)}.e30.AAAA"))


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2]))
def test_no_bytes_raise(junk: bytes, place: int) -> None:
    parts = OURS.sign(claims()).split(".")
    parts[place] = segment(junk)
    assert not isinstance(verdict(".".join(parts)), ValidToken)
    assert isinstance(verdict(junk), InvalidToken)


# Keys


def test_a_token_without_a_key_id_is_checked_with_the_only_key() -> None:
    token = signed(claims(), kid=None)
    assert isinstance(check_token(token, read_keys(jwks(OURS)), RULES, NOW), ValidToken)
    found = check_token(token, read_keys(jwks(OURS, KeyPair("b", "EdDSA"))), RULES, NOW)
    assert refusal(found) == "the token names no key"


def test_keys_of_other_kinds_and_uses_are_left_out() -> None:
    weak = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True)
    rows = [
        {"kty": "oct", "k": segment(b"secret"), "kid": "shared"},
        {**OURS.row, "kid": "encrypts", "use": "enc"},
        {**OURS.row, "kid": "symmetric", "alg": "HS256"},
        {**OURS.row, "kid": "nothing", "alg": "none"},
        {**weak, "kid": "weak"},
        {**RSAAlgorithm.to_jwk(OURS.private, as_dict=True), "kid": "private"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "no-point"},
        {"kty": "EC", "crv": "secp256k1", "kid": "other-curve"},
        {"kid": "empty"},
        OURS.row,
    ]
    assert read_keys(json.dumps({"keys": rows}).encode()).ids == [OURS.key_id]
    with pytest.raises(UnusableKeysError, match="no public"):
        read_keys(json.dumps({"keys": rows[:-1]}).encode())


def test_a_key_without_an_algorithm_checks_those_of_its_kind() -> None:
    row = {name: value for name, value in OURS.row.items() if name != "alg"}
    keys = read_keys(json.dumps({"keys": [row]}).encode())
    assert isinstance(check_token(OURS.sign(claims()).encode(), keys, RULES, NOW), ValidToken)
    forged = f"{segment({'alg': 'ES256', 'kid': OURS.key_id})}.{segment(claims())}.AAAA".encode()
    assert isinstance(check_token(forged, keys, RULES, NOW), InvalidToken)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": ["x"]}', b"\xff", b"<html>"])
def test_another_document_is_refused(document: bytes) -> None:
    with pytest.raises(UnusableKeysError):
        read_keys(document)


def test_a_document_with_too_many_keys_is_refused() -> None:
    with pytest.raises(UnusableKeysError, match="101 keys"):
        read_keys(json.dumps({"keys": [OURS.row] * 101}).encode())


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.lists(st.text(max_size=3)))
NAMES = st.sampled_from(["kty", "crv", "alg", "use", "kid", "n", "e", "x", "y"])
KINDS = st.sampled_from(["RSA", "EC", "OKP"])


@given(KINDS, st.sampled_from(["P-256", "Ed25519"]), st.dictionaries(NAMES, VALUES))
def test_no_row_of_a_document_raises_another_error(kind: str, curve: str, row: dict[str, Any]) -> None:
    document = json.dumps({"keys": [{"kty": kind, "crv": curve, **row}, OURS.row]}).encode()
    assert OURS.key_id in read_keys(document).ids


def test_a_reason_never_shows_the_token() -> None:
    token = OURS.sign(claims(sub="alice", secret="s3cret"))
    _, body, signature = token.split(".")
    for bad in (token + "x", token.replace(".", ",", 1)):
        assert body not in refusal(verdict(bad))
        assert signature[:20] not in refusal(verdict(bad))
    assert hashlib.sha256(token.encode()).hexdigest() not in refusal(verdict(token + "x"))
