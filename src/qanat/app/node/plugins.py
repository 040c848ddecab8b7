"""Plugins: parts of a broker, found by name among the entry points of installed packages.

| group                       | an entry point is called with | and returns a                                    |
| --------------------------- | ----------------------------- | ------------------------------------------------ |
| `qanat.storage_engines`     | `DirectorySettings`           | `log.directories.storage_engine.StorageEngine`   |
| `qanat.partition_assignors` | nothing                       | `groups.assignors.assignor.Assignor`             |
| `qanat.authenticators`      | `SecuritySettings`            | `security.authentication.Authenticator`          |
| `qanat.authorizers`         | `SecuritySettings`            | `security.authorization.Authorizer`              |
| `qanat.networks`            | nothing                       | `connection.network.Network`                     |
| `qanat.pipes`               | `edge.feeds.FeedSettings`     | `edge.feeds.Feed`                                |

Rule: only names that are installed under one of these groups are loaded. A setting chooses among them; it cannot name
      code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any

from qanat.app.settings.node_settings import BUILT_IN_NETWORK
from qanat.connection.network import Network
from qanat.edge.feeds import Feed, FeedSettings
from qanat.edge.topology import OWN_SCHEMES
from qanat.groups.assignors.assignor import Assignor
from qanat.log.directories.storage_engine import StorageEngine
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError, QanatError, UnknownStorageEngineError
from qanat.security.authentication import Authenticator
from qanat.security.authorization import Authorizer
from qanat.security.settings import SecuritySettings

NETWORKS = "qanat.networks"
STORAGE_ENGINES = "qanat.storage_engines"
ASSIGNORS = "qanat.partition_assignors"
AUTHENTICATORS = "qanat.authenticators"
AUTHORIZERS = "qanat.authorizers"
PIPES = "qanat.pipes"


def storage_engine(name: str, settings: DirectorySettings) -> StorageEngine:
    """The engine of that name; raises `UnknownStorageEngineError` with the installed ones."""
    make = _loaded(STORAGE_ENGINES, "storage engine", name, UnknownStorageEngineError)
    engine: StorageEngine = make(settings)
    return engine


def partition_assignors(names: Iterable[str]) -> dict[str, Assignor]:
    """Assignors by the names that clients use; raises `InvalidSettingError`."""
    found: dict[str, Assignor] = {}
    for name in names:
        assignor: Assignor = _loaded(ASSIGNORS, "partition assignor", name, InvalidSettingError)()
        found[assignor.name] = assignor
    return found


def authenticator(name: str, settings: SecuritySettings, built_in: Iterable[str]) -> Authenticator:
    """The mechanism of that name; `built_in` are those that need no package."""
    make = _loaded(AUTHENTICATORS, "authenticator", name, InvalidSettingError, built_in)
    found: Authenticator = make(settings)
    return found


def network(name: str) -> Network:
    """The network of that name; raises `InvalidSettingError` with the installed ones."""
    make = _loaded(NETWORKS, "network", name, InvalidSettingError, [BUILT_IN_NETWORK])
    try:
        found: Network = make()
    except Exception as fault:
        raise InvalidSettingError(f"network {name!r} cannot be used: {fault or type(fault).__name__}") from fault
    return found


def is_installed(name: str) -> bool:
    """Whether a package brings the mechanism of that name."""
    return name in entry_points(group=AUTHENTICATORS).names


def authorizer(settings: SecuritySettings, built_in: Iterable[str]) -> Authorizer:
    """The authorizer that the settings name; `built_in` are those that need no package."""
    make = _loaded(AUTHORIZERS, "authorizer", settings.authorizer_class_name, InvalidSettingError, built_in)
    found: Authorizer = make(settings)
    return found


def feed(scheme: str, settings: FeedSettings) -> Feed:
    """The feed of a parent whose URL has this scheme."""
    make = _loaded(PIPES, "pipe", scheme, InvalidSettingError, OWN_SCHEMES)
    try:
        found: Feed = make(settings)
    except Exception as fault:
        raise InvalidSettingError(f"pipe {scheme!r} cannot be used: {fault or type(fault).__name__}") from fault
    return found


def _loaded(
    group: str, what: str, name: str, error: type[QanatError], built_in: Iterable[str] = ()
) -> Callable[..., Any]:
    """The object of an entry point; raises with the installed names where the name is not among them."""
    found = entry_points(group=group)
    if name not in found.names:
        installed = ", ".join(sorted({*found.names, *built_in})) or "none"
        raise error(f"there is no {what} {name!r}; installed are {installed}")
    try:
        loaded: Callable[..., Any] = found[name].load()
    except Exception as fault:
        raise error(
            f"{what} {name!r} is installed as {found[name].value} but cannot be loaded: {fault}; "
            "repair or remove the package that brings it"
        ) from fault
    return loaded
