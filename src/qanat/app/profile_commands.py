"""`qanat profile list|set|use|delete|settings`: names for clusters; where they are kept: `profiles`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client_settings import MEANINGS, ClientSettings, settings_of
from qanat.app.profiles import Profile, profiles_path, read_profiles, write_profiles
from qanat.app.session import Target, WrongArgumentError, assignments
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("profile", "in_use", "bootstrap", "timeout", "settings")
_SETTING_COLUMNS = ("setting", "meaning")


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


def set_profile(
    name: str,
    /,
    *,
    bootstrap: Annotated[str, Parameter(name=["--bootstrap", "-b", "--bootstrap-server"])],
    timeout: float | None = None,
    settings: Annotated[list[str] | None, Parameter(name="-X", negative="")] = None,
) -> None:
    """Add a profile, or change it. The first one is in use at once.

        qanat profile set staging --bootstrap kafka-1:9092,kafka-2:9092 --timeout 30
        qanat profile set safe -b kafka-1:9093 -X security.protocol=SSL -X ssl.ca.location=/etc/ssl/ours.pem

    The file can be read by this user only. A password need not stand in it: $QANAT_CLIENT_SASL_PASSWORD.

    Parameters
    ----------
    name:
        What it is called.
    bootstrap:
        Any broker of the cluster, host:port, or several with commas.
    timeout:
        Seconds that this cluster may take to answer.
    settings:
        A client setting, as often as needed: -X name=value. `qanat profile settings` lists them.
    """
    if not name:
        raise WrongArgumentError("a profile needs a name")
    told = settings_of(assignments(settings or []), "-X")
    Target(bootstrap=bootstrap, timeout=timeout).cluster()  # Refuses what is no address, and no time.
    ClientSettings({"sasl.password": "", **told.values}).security()  # The environment may bring a password later.
    path = profiles_path()
    content = read_profiles(path)
    content.profiles[name] = Profile(bootstrap, timeout, dict(told.values))
    content.chosen = content.chosen or name
    write_profiles(path, content)
    print(f"{name} is {'in use' if content.chosen == name else 'set'} ({path})")


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


def use(name: str, /) -> None:
    """Use a profile wherever none is named.

        qanat profile use staging

    Parameters
    ----------
    name:
        A profile that is there.
    """
    path = profiles_path()
    content = read_profiles(path)
    content.named(name, str(path))
    content.chosen = name
    write_profiles(path, content)
    print(f"{name} is in use")


def delete(name: str, /) -> None:
    """Forget a profile; the cluster is not touched.

        qanat profile delete staging

    Parameters
    ----------
    name:
        A profile that is there.
    """
    path = profiles_path()
    content = read_profiles(path)
    content.named(name, str(path))
    del content.profiles[name]
    content.chosen = None if content.chosen == name else content.chosen
    write_profiles(path, content)
    print(f"deleted {name}")
