"""`qanat api-key list`: keys by their prefixes."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from qanat.app.api_keys.key_store import NOWHERE, KeyPlace, KeyStore, on_keys
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.security.api_keys import START

_COLUMNS = ("prefix", "user", "state", "expires", "created", "note")


def list_keys(*, user: str | None = None, place: KeyPlace = NOWHERE, output: Output = "table") -> None:
    """List API keys by their prefixes; neither keys nor their hashes are shown.

        qanat api-key list --data-dir ./data
        qanat api-key list --user alice --config broker.yaml -o json

    Parameters
    ----------
    user:
        Only keys of this user.
    output:
        `table` for people, the others for programs.
    """
    now_ms = time.time() * 1000

    async def work(store: KeyStore) -> list[Row]:
        return [
            {
                "prefix": START + identity,
                "user": key.user,
                "state": "expired" if key.expires_ms and now_ms >= key.expires_ms else "valid",
                "expires": _date(key.expires_ms) if key.expires_ms else "never",
                "created": _date(key.created_ms),
                "note": key.note,
            }
            for identity, key in sorted((await store.keys()).items(), key=lambda one: (one[1].user, one[1].created_ms))
            if user in (None, key.user)
        ]

    print_rows(on_keys(place, work), _COLUMNS, output)


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
