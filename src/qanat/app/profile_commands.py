"""`qanat profile list|set|use|delete`: names for clusters; where they are kept: `profiles`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.listing import Output, Row, print_rows
from qanat.app.profiles import Profile, profiles_path, read_profiles, write_profiles
from qanat.app.session import Target, WrongArgumentError

_COLUMNS = ("profile", "in_use", "bootstrap", "timeout")


def list_profiles(*, output: Output = "table") -> None:
    """List the profiles of this user.

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    content = read_profiles(profiles_path())
    rows: list[Row] = [
        {"profile": name, "in_use": name == content.chosen, "bootstrap": one.bootstrap, "timeout": one.timeout}
        for name, one in content.profiles.items()
    ]
    print_rows(rows, _COLUMNS, output)


def set_profile(
    name: str,
    /,
    *,
    bootstrap: Annotated[str, Parameter(name=["--bootstrap", "-b", "--bootstrap-server"])],
    timeout: float | None = None,
) -> None:
    """Add a profile, or change it. The first one is in use at once.

        qanat profile set staging --bootstrap kafka-1:9092,kafka-2:9092 --timeout 30

    Parameters
    ----------
    name:
        What it is called.
    bootstrap:
        Any broker of the cluster, host:port, or several with commas.
    timeout:
        Seconds that this cluster may take to answer.
    """
    if not name:
        raise WrongArgumentError("a profile needs a name")
    Target(bootstrap=bootstrap, timeout=timeout).cluster()  # Refuses what is no address, and no time.
    path = profiles_path()
    content = read_profiles(path)
    content.profiles[name] = Profile(bootstrap, timeout)
    content.chosen = content.chosen or name
    write_profiles(path, content)
    print(f"{name} is {'in use' if content.chosen == name else 'set'} ({path})")


def use(name: str, /) -> None:
    """Use a profile wherever none is named.

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
