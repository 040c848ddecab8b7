"""`qanat api-key add`: a new key for a user."""

from __future__ import annotations

import re
import secrets
import sys
import time

from qanat.app.api_keys.key_store import NOWHERE, KeyPlace, KeyStore, on_keys
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.terminal.listing import Output, print_rows
from qanat.cluster import values
from qanat.security.api_keys import ID_BYTES, SECRET_BYTES, compose, hash_of

_COLUMNS = ("key", "user", "expires")
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NOTE_MAX = 200


def add(
    user: str, /, *, expires: str = "90d", note: str = "", place: KeyPlace = NOWHERE, output: Output = "table"
) -> None:
    """Make an API key for HTTP, and print it once: brokers keep a hash of it.

        qanat api-key add alice --data-dir ./data
        qanat api-key add alice --expires 12h --note 'build server' --config broker.yaml

    Clients send it as `X-API-Key: qk_...` or `Authorization: Bearer qk_...`, and are User:alice.

    Parameters
    ----------
    user:
        Name of the user that the key stands for; rules call it User:name.
    expires:
        How long the key is valid: a number with m, h or d; `never` for no end.
    note:
        What the key is for, shown in lists.
    output:
        `table` for people, the others for programs.
    """
    if not user:
        raise WrongArgumentError("a key needs a user")
    if len(note) > _NOTE_MAX:
        raise WrongArgumentError(f"--note has more than {_NOTE_MAX} characters")
    now_ms = int(time.time() * 1000)
    expires_ms = expiry(expires, now_ms)
    identity = secrets.token_hex(ID_BYTES)
    key = compose(identity, secrets.token_urlsafe(SECRET_BYTES))
    stored = values.ApiKey(user=user, hash=hash_of(key), note=note, created_ms=now_ms, expires_ms=expires_ms)

    async def work(store: KeyStore) -> None:
        await store.add(identity, stored)

    on_keys(place, work)
    if output == "table":
        print(key)
        print(f"for {user}, valid for {expires}: keep it now, it is not shown again", file=sys.stderr)
    else:
        print_rows([{"key": key, "user": user, "expires": expires_ms or None}], _COLUMNS, output)


def expiry(text: str, now_ms: int) -> int:
    """The end of a validity; 0 for none.

    >>> expiry("2h", 1000), expiry("never", 1000)
    (7201000, 0)
    """
    if text == "never":
        return 0
    match = re.fullmatch(r"([1-9]\d{0,5})([mhd])", text)
    if match is None:
        raise WrongArgumentError(f"--expires {text}: write a number with m, h or d, such as 90d; or never")
    return now_ms + int(match[1]) * _UNITS_MS[match[2]]
