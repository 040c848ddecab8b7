"""`qanat profile list`."""

from __future__ import annotations

from qanat.app.client.client_settings import ClientSettings
from qanat.app.client.profile_file import Profile, profiles_path, read_profiles
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("profile", "in_use", "bootstrap", "timeout", "settings")


def list_profiles(*, output: Output = "table") -> None:
    """List the profiles of this user; passwords and keys are not shown.

        qanat profile list -o json

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    content = read_profiles(profiles_path())
    rows: list[Row] = [
        {
            "profile": name,
            "in_use": name == content.chosen,
            "bootstrap": one.bootstrap,
            "timeout": one.timeout,
            "settings": _shown(one),
        }
        for name, one in content.profiles.items()
    ]
    print_rows(rows, _COLUMNS, output)


def _shown(profile: Profile) -> str | None:
    return " ".join(f"{name}={value}" for name, value in ClientSettings(profile.settings).shown().items()) or None
