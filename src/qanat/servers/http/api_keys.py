"""API keys of HTTP requests: `X-API-Key: qk_…`, `Authorization: Bearer qk_…` or `Authorization: ApiKey qk_…`.

Keys are those of the metadata image, which follows the store: a removed key is refused by every broker as soon as its
watch has seen that, and open streams end with it. Nothing is remembered.
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


def stored_key(key: str, image: ApiKeyImage) -> values.ApiKey | None:
    """The stored key that a client's key is; None where it is unknown, wrong or has expired."""
    found = image.api_keys.get(key_id(key) or "")
    is_right = is_key(key, _NO_HASH if found is None else found.hash)
    return None if found is None or not is_right or _has_expired(found) else found


def is_in_force(identity: str, principal: Principal, image: ApiKeyImage) -> bool:
    """Whether an accepted key is still there and still the principal's."""
    found = image.api_keys.get(identity)
    return found is not None and found.user == principal.name and not _has_expired(found)


def _has_expired(key: values.ApiKey) -> bool:
    return bool(key.expires_ms) and time.time() * 1000 >= key.expires_ms
