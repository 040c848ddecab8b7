"""`qanat profile delete`."""

from __future__ import annotations

from qanat.app.client.profile_file import profiles_path, read_profiles, write_profiles


def delete(name: str, /) -> None:
    """Delete a profile; the cluster is not touched.

        qanat profile delete staging

    Parameters
    ----------
    name:
        An existing profile.
    """
    path = profiles_path()
    content = read_profiles(path)
    content.named(name, str(path))
    del content.profiles[name]
    content.chosen = None if content.chosen == name else content.chosen
    write_profiles(path, content)
    print(f"deleted {name}")
