"""The port for storage engines: where the files of logs live.

An engine is a callable that takes a directory's settings and returns one of
these; it is found by its name among the entry points `qanat.storage_engines`
(`app.node.plugins`). Ours are `file` (alias `mmap`) and `memory`; how to bring another
is told in docs/extending/storage-engines.md.
"""

from __future__ import annotations

from typing import Protocol

from qanat.log.directories.catalogue import Catalogue
from qanat.log.files import Files


class StorageEngine(Protocol):
    """Files, and the catalogue of what a clean close left in them."""

    @property
    def files(self) -> Files: ...

    def catalogue(self, directory: str) -> Catalogue:
        """The catalogue of one data directory."""
        ...
