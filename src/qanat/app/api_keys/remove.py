"""`qanat api-key remove`: keys that are no longer valid."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.api_keys.key_store import NOWHERE, KeyPlace, KeyStore, on_keys
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.security.api_keys import START, id_of_prefix, key_id

_COLUMNS = ("prefix", "user", "done")


def remove(
    prefixes: Annotated[list[str], Parameter(name="prefix", negative="")],
    /,
    *,
    consent: Consent = UNDECIDED,
    place: KeyPlace = NOWHERE,
    output: Output = "table",
) -> int:
    """Remove API keys: brokers refuse them at once. Without --yes, only list them.

        qanat api-key remove qk_0123456789abcdef --data-dir ./data --yes

    Parameters
    ----------
    prefixes:
        Prefixes of keys, as `qanat api-key list` shows them; or whole keys.
    output:
        A sentence each for people, the others for programs.
    """

    async def work(store: KeyStore) -> list[Row]:
        found = await store.keys()
        rows: list[Row] = []
        wanted = [key_id(text) or id_of_prefix(text) or "" for text in prefixes]
        for identity in wanted:
            if identity not in found:
                # The text is not repeated: it may be a secret.
                raise WrongArgumentError("one of these is no prefix of an API key: qanat api-key list shows them")
        for identity in wanted:
            if consent.is_confirmed:
                await store.remove(identity)
            done = "removed" if consent.is_confirmed else "would remove"
            rows.append({"prefix": START + identity, "user": found[identity].user, "done": done})
        return rows

    rows = on_keys(place, work)
    print_done(rows, _COLUMNS, output, lambda row: f"{row['done']} {row['prefix']} of {row['user']}")
    return 0 if consent.is_confirmed else consent.report_withheld("removed")
