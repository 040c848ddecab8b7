"""An archive of Qanat for executors: the package as installed here, with its compiled modules.

A zip for `--py-files` is not enough: Python loads no compiled modules from a zip. The archive holds the package and its
runtime dependencies, for the same Python version and kind of machine; the cluster has PySpark and pyarrow.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import qanat

FOLDER = "qanat-lib"
"""The folder of the archive's content, below the executors' working directory."""
_PACKAGE = Path(qanat.__file__).parent
_LEFT_OUT = ("__pycache__", ".pyx", ".c", ".pxd")
_NEEDED = re.compile(r"^([A-Za-z0-9._-]+)")


def pack(archive: Path) -> int:
    """Write the archive; returns the number of files."""
    count = 0
    with tarfile.open(archive, "w:gz", compresslevel=1) as sink:
        for path, name in _files():
            sink.add(path, name, recursive=False)
            count += 1
    return count


def settings(archive: Path) -> dict[str, str]:
    """The settings with which Spark's executors use the archive."""
    return {"spark.archives": f"{archive}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def _files() -> Iterator[tuple[Path, str]]:
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE.parent)
        if path.is_file() and not any(part in _LEFT_OUT for part in name.parts) and path.suffix not in _LEFT_OUT:
            yield path, str(name)
    # The files of qanat-client are in the package's folder.
    for needed in sorted(_needed("qanat", set()) - {"qanat-client"}):
        for file in distribution(needed).files or ():
            path = Path(str(file.locate()))
            # Scripts lie outside the packages' folder, and executors do not need them.
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                yield path, str(file)


def _needed(name: str, known: set[str]) -> set[str]:
    """The distributions that a plain installation requires, directly and indirectly."""
    for requirement in distribution(name).requires or ():
        found = _NEEDED.match(requirement)
        is_extra = "extra ==" in requirement
        if found is None or is_extra or found[1] in known:
            continue
        try:
            distribution(found[1])
        except PackageNotFoundError:
            # A marker excludes it on this machine, so pip has not installed it.
            continue
        known.add(found[1])
        _needed(found[1], known)
    return known
