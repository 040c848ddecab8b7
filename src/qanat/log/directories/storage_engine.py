"""The port for storage engines: where the files of logs are stored.

An engine is a callable that takes a directory's settings and returns one of
these; it is found by its name among the entry points `qanat.storage_engines`
(`app.node.plugins`). Ours are `file` (alias `mmap`) and `memory`;
docs/extending/storage-engines.md shows how to add another.
"""

from __future__ import annotations

from typing import Protocol

from qanat.log.directories.catalogue import Catalogue
from qanat.log.files import Files


class StorageEngine(Protocol):
    """Files, and the catalogue that a clean shutdown saved."""

    @property
    def files(self) -> Files: ...

    def catalogue(self, directory: str) -> Catalogue:
        """The catalogue of one data directory."""
        ...
