"""API keys: secrets that HTTP clients send in place of a name and a password.

    qk_0123456789abcdef_SECRET
    prefix              |

The prefix finds a key and is shown in lists; the secret is shown once, when the key is made. A secret has 256 random
bits, so a plain hash of the whole key is enough to store: no one can guess from it.
"""

from __future__ import annotations

import hashlib
import hmac
import re

ID_BYTES = 8
SECRET_BYTES = 32
START = "qk_"
_KEY = re.compile(r"qk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_PREFIX = re.compile(r"(?:qk_)?([0-9a-f]{16})")


def key_id(key: str) -> str | None:
    """The id in a key; None where the text is no key."""
    match = _KEY.fullmatch(key)
    return None if match is None else match[1]


def id_of_prefix(prefix: str) -> str | None:
    """The id in a prefix, as lists show it; None where the text is none."""
    match = _PREFIX.fullmatch(prefix)
    return None if match is None else match[1]


def compose(identity: str, secret: str) -> str:
    """A key, from its id and its secret."""
    key = f"{START}{identity}_{secret}"
    assert key_id(key) == identity, "an id of 16 hexadecimal digits and a secret of 43 letters"
    return key


def hash_of(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).digest()


def is_key(key: str, stored: bytes) -> bool:
    """Whether this is the key whose hash is stored, compared in constant time."""
    return hmac.compare_digest(hash_of(key), stored)
