"""Parts that can be swapped, found by name among installed packages' entry points.

Only names that are installed under a group of ours are ever loaded: a setting
chooses among them, it cannot name code.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from qanat.log.engine import StorageEngine
from qanat.log.settings import DirectorySettings
from qanat.model.errors import UnknownStorageEngineError

STORAGE_ENGINES = "qanat.storage_engines"


def storage_engine(name: str, settings: DirectorySettings) -> StorageEngine:
    """The engine of that name; raises `UnknownStorageEngineError` listing those that are installed."""
    found = entry_points(group=STORAGE_ENGINES)
    if name not in found.names:
        raise UnknownStorageEngineError(
            f"there is no storage engine {name!r}; installed are {', '.join(sorted(found.names))}"
        )
    try:
        engine: Callable[[DirectorySettings], StorageEngine] = found[name].load()
    except (ImportError, AttributeError) as error:
        raise UnknownStorageEngineError(
            f"storage engine {name!r} is installed as {found[name].value} but cannot be loaded: {error}; "
            "repair or remove the package that brings it"
        ) from error
    return engine(settings)
