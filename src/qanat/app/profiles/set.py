"""`qanat profile set`: add or change a profile."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.client_settings import ClientSettings, settings_of
from qanat.app.client.profile_file import Profile, profiles_path, read_profiles, write_profiles
from qanat.app.client.target import Target


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

    Only this user can read the file. A password need not be in it: $QANAT_CLIENT_SASL_PASSWORD.

    Parameters
    ----------
    name:
        Name of the profile.
    bootstrap:
        Any broker of the cluster, host:port, or several with commas.
    timeout:
        Seconds that this cluster may take to answer.
    settings:
        A client setting, as often as needed: -X name=value. `qanat profile settings` lists them.
    """
    if not name:
        raise WrongArgumentError("a profile needs a name")
    client_settings = settings_of(assignments(settings or []), "-X")
    Target(bootstrap=bootstrap, timeout=timeout).cluster()  # Raises on a wrong address or timeout.
    # The environment may have the password later.
    ClientSettings({"sasl.password": "", **client_settings.values}).security()
    path = profiles_path()
    content = read_profiles(path)
    content.profiles[name] = Profile(bootstrap, timeout, dict(client_settings.values))
    content.chosen = content.chosen or name
    write_profiles(path, content)
    print(f"{name} is {'in use' if content.chosen == name else 'set'} ({path})")
