"""The text of API keys: what is a key, what is shown of it, what is stored."""

from __future__ import annotations

import base64
import secrets

import pytest

from qanat.security.api_keys import SECRET_BYTES, compose, hash_of, id_of_prefix, is_key, key_id

ID = "0123456789abcdef"
KEY = compose(ID, base64.urlsafe_b64encode(bytes(range(SECRET_BYTES))).rstrip(b"=").decode())


def test_a_key_holds_its_id() -> None:
    assert key_id(KEY) == ID
    assert id_of_prefix(f"qk_{ID}") == id_of_prefix(ID) == ID


@pytest.mark.parametrize("text", ["", "qk_", f"qk_{ID}", KEY[:-1], KEY + "x", KEY.upper(), f" {KEY}", f"{KEY}\n"])
def test_other_text_is_no_key(text: str) -> None:
    assert key_id(text) is None


def test_a_key_fits_its_hash_and_no_other() -> None:
    other = compose(ID, secrets.token_urlsafe(SECRET_BYTES))

    assert is_key(KEY, hash_of(KEY))
    assert not is_key(other, hash_of(KEY))
    assert KEY.encode() not in hash_of(KEY)
