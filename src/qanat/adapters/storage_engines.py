"""The storage engines that come with Qanat, behind the port `log.engine`."""

from __future__ import annotations

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.adapters.sqlite_catalogue import SqliteCatalogue
from qanat.log.settings import DirectorySettings


class FileEngine:
    """`file`: the operating system's files, read through memory maps."""

    def __init__(self, settings: DirectorySettings) -> None:
        self.files = OsFiles(settings.log_open_files_max)

    def catalogue(self, directory: str) -> SqliteCatalogue:
        return SqliteCatalogue(f"{directory}/catalogue.db")


class MemoryEngine:
    """`memory`: nothing survives the process."""

    def __init__(self, settings: DirectorySettings) -> None:
        self.files = MemoryFiles()
        self._catalogues: dict[str, MemoryCatalogue] = {}

    def catalogue(self, directory: str) -> MemoryCatalogue:
        return self._catalogues.setdefault(directory, MemoryCatalogue())
