"""`qanat profile use`: choose the profile of commands that name none."""

from __future__ import annotations

from qanat.app.client.profile_file import profiles_path, read_profiles, write_profiles


def use(name: str, /) -> None:
    """Use a profile wherever none is named.

        qanat profile use staging

    Parameters
    ----------
    name:
        An existing profile.
    """
    path = profiles_path()
    content = read_profiles(path)
    content.named(name, str(path))
    content.chosen = name
    write_profiles(path, content)
    print(f"{name} is in use")
