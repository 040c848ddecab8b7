"""The storage engines that come with Qanat, behind the port `log.directories.storage_engine`.

Each imports its parts when it is made: a broker in memory needs neither SQLite nor the page cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.log.settings import DirectorySettings

if TYPE_CHECKING:
    from qanat.adapters.memory_catalogue import MemoryCatalogue
    from qanat.adapters.sqlite_catalogue import SqliteCatalogue


class FileEngine:
    """`file`: the operating system's files, read through memory maps."""

    def __init__(self, settings: DirectorySettings) -> None:
        from qanat.adapters.os_files import OsFiles

        self.files = OsFiles(settings.log_open_files_max)

    def catalogue(self, directory: str) -> SqliteCatalogue:
        from qanat.adapters.sqlite_catalogue import SqliteCatalogue

        return SqliteCatalogue(f"{directory}/catalogue.db")


class MemoryEngine:
    """`memory`: nothing survives the process."""

    def __init__(self, settings: DirectorySettings) -> None:
        from qanat.adapters.memory_files import MemoryFiles

        self.files = MemoryFiles()
        self._catalogues: dict[str, MemoryCatalogue] = {}

    def catalogue(self, directory: str) -> MemoryCatalogue:
        from qanat.adapters.memory_catalogue import MemoryCatalogue

        return self._catalogues.setdefault(directory, MemoryCatalogue())
