"""API keys of HTTP requests: `X-API-Key: qk_…`, `Authorization: Bearer qk_…` or `Authorization: ApiKey qk_…`.

Keys are those of the metadata image, which follows the store: a removed key is refused by every broker as soon as its
watch has seen that. Nothing is remembered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from qanat.cluster import values
from qanat.security.api_keys import START, is_key, key_id
from qanat.security.authentication import Principal

_SCHEMES = (b"bearer", b"apikey")
_NO_HASH = bytes(32)
"""No key has this hash: compared with where the key is unknown."""


class ApiKeyImage(Protocol):
    """What is needed of the metadata image."""

    @property
    def api_keys(self) -> Mapping[str, values.ApiKey]: ...


def authorization_of(scope: Mapping[str, Any]) -> bytes | None:
    """How a request authenticates: its `Authorization`, or its `X-API-Key` in that form."""
    found: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            return bytes(value)
        if name == b"x-api-key":
            found = b"ApiKey " + bytes(value)
    return found


def api_key_in(authorization: bytes) -> str | None:
    """The API key of a request; None where it authenticates in another way."""
    scheme, _, token = authorization.partition(b" ")
    name, text = scheme.lower(), token.strip().decode("latin-1")
    if name not in _SCHEMES or (name == b"bearer" and not text.startswith(START)):
        return None
    return text


def shown(key: str) -> str:
    """The part of a key that may be logged; empty where it is none."""
    identity = key_id(key)
    return "" if identity is None else START + identity


def principal_of_key(key: str, image: ApiKeyImage) -> Principal | None:
    """The principal of a key; None where it is unknown, wrong or has expired."""
    found = image.api_keys.get(key_id(key) or "")
    is_right = is_key(key, _NO_HASH if found is None else found.hash)
    if found is None or not is_right or (found.expires_ms and time.time() * 1000 >= found.expires_ms):
        return None
    return Principal(found.user)
