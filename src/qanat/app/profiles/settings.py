"""`qanat profile settings`: the client settings that -X and profiles take."""

from __future__ import annotations

from qanat.app.client.client_settings import MEANINGS
from qanat.app.terminal.listing import Output, Row, print_rows

_SETTING_COLUMNS = ("setting", "meaning")


def list_settings(*, output: Output = "table") -> None:
    """List the client settings that -X, --command-config, profiles and $QANAT_CLIENT_… take.

        qanat topic list -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=me
        QANAT_CLIENT_SASL_PASSWORD=secret qanat topic list --profile staging

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    rows: list[Row] = [{"setting": name, "meaning": meaning} for name, meaning in MEANINGS.items()]
    print_rows(rows, _SETTING_COLUMNS, output)
