"""The names of `handlers.apps`: `module:variable`, or an installed entry point of the group `qanat.handlers`.

Rule: nothing is imported here. An entry point is only read; the worker process imports what it names.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

GROUP = "qanat.handlers"
SETTING = "handlers.apps"


def app_names(text: str) -> dict[str, str]:
    """`module:variable` of each app, by the name that the setting has; raises `InvalidSettingError`."""
    found: dict[str, str] = {}
    for name in (part.strip() for part in text.split(",")):
        if not name:
            continue
        if name in found:
            raise InvalidSettingError(f"{SETTING} has {name} twice")
        found[name] = _target(name)
    return found


def _target(name: str) -> str:
    module, separator, variable = name.partition(":")
    if not separator:
        return _installed(name)
    if not all(part.isidentifier() for part in (*module.split("."), *variable.split("."))):
        raise InvalidSettingError(f"{SETTING} has {name!r}: write module:variable, as in shop.handlers:app")
    return name


def _installed(name: str) -> str:
    """What an installed entry point stands for."""
    installed = entry_points(group=GROUP)
    if name not in installed.names:
        known = ", ".join(sorted(installed.names)) or "none"
        hint = did_you_mean(name, installed.names, f"installed are {known}")
        raise InvalidSettingError(
            f"{SETTING} has {name!r}, which is neither module:variable nor an entry point of {GROUP}{hint}"
        )
    return installed[name].value.split(" ")[0]
