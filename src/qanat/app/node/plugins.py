"""Parts that can be swapped, found by name among installed packages' entry points.

| group                       | what an entry point is                                                     |
| --------------------------- | -------------------------------------------------------------------------- |
| `qanat.storage_engines`     | called with `DirectorySettings`, gives a `log.directories.storage_engine.StorageEngine`        |
| `qanat.partition_assignors` | called with nothing, gives a `groups.assignors.assignor.Assignor`          |
| `qanat.authenticators`      | called with `SecuritySettings`, gives a `security.authentication.Authenticator` |
| `qanat.authorizers`         | called with `SecuritySettings`, gives a `security.authorization.Authorizer` |

Only names that are installed under a group of ours are ever loaded: a setting
chooses among them, it cannot name code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any

from qanat.groups.assignors.assignor import Assignor
from qanat.log.directories.storage_engine import StorageEngine
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError, QanatError, UnknownStorageEngineError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.settings import SecuritySettings

STORAGE_ENGINES = "qanat.storage_engines"
ASSIGNORS = "qanat.partition_assignors"
AUTHENTICATORS = "qanat.authenticators"
AUTHORIZERS = "qanat.authorizers"


def storage_engine(name: str, settings: DirectorySettings) -> StorageEngine:
    """The engine of that name; raises `UnknownStorageEngineError` listing those that are installed."""
    make = _loaded(STORAGE_ENGINES, "storage engine", name, UnknownStorageEngineError)
    engine: StorageEngine = make(settings)
    return engine


def partition_assignors(names: Iterable[str]) -> dict[str, Assignor]:
    """Assignors by the names that clients ask for them with; raises `InvalidSettingError`."""
    found: dict[str, Assignor] = {}
    for name in names:
        assignor: Assignor = _loaded(ASSIGNORS, "partition assignor", name, InvalidSettingError)()
        found[assignor.name] = assignor
    return found


def authenticators(settings: SecuritySettings) -> dict[str, Authenticator]:
    """The mechanisms that a listener offers, in the order in which they were given."""
    if not settings.mechanisms:
        raise InvalidSettingError("a SASL_PLAINTEXT listener needs at least one of sasl.enabled.mechanisms")
    found: dict[str, Authenticator] = {}
    for name in settings.mechanisms:
        make = _loaded(AUTHENTICATORS, "authenticator", name, InvalidSettingError)
        authenticator: Authenticator = make(settings)
        found[authenticator.mechanism] = authenticator
    return found


def authorizer(settings: SecuritySettings) -> Authorizer:
    make = _loaded(AUTHORIZERS, "authoriser", settings.authorizer_class_name, InvalidSettingError)
    found: Authorizer = make(settings)
    return found


def _loaded(group: str, what: str, name: str, error: type[QanatError]) -> Callable[..., Any]:
    """What an entry point stands for; a name that is not installed is refused with those that are."""
    found = entry_points(group=group)
    if name not in found.names:
        installed = ", ".join(sorted(found.names)) or "none"
        raise error(f"there is no {what} {name!r}; installed are {installed}")
    try:
        loaded: Callable[..., Any] = found[name].load()
    except (ImportError, AttributeError) as fault:
        raise error(
            f"{what} {name!r} is installed as {found[name].value} but cannot be loaded: {fault}; "
            "repair or remove the package that brings it"
        ) from fault
    return loaded
