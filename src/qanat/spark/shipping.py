"""What executors need of Qanat, as one archive: the package as it is installed here, compiled modules included.

A zip for `--py-files` would not do: Python loads no compiled modules out of a zip. The archive holds the package and
what it needs at run time, for the same Python version and kind of machine; PySpark and pyarrow are the cluster's.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import qanat

FOLDER = "qanat-lib"
"""Where executors find the archive's content, below their working directory."""
_PACKAGE = Path(qanat.__file__).parent
_LEFT_OUT = ("__pycache__", ".pyx", ".c", ".pxd")
_NEEDED = re.compile(r"^([A-Za-z0-9._-]+)")


def pack(archive: Path) -> int:
    """Write the archive; how many files it has."""
    count = 0
    with tarfile.open(archive, "w:gz", compresslevel=1) as sink:
        for path, name in _files():
            sink.add(path, name, recursive=False)
            count += 1
    return count


def settings(archive: Path) -> dict[str, str]:
    """What Spark must be told so that its executors use the archive."""
    return {"spark.archives": f"{archive}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def _files() -> Iterator[tuple[Path, str]]:
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE.parent)
        if path.is_file() and not any(part in _LEFT_OUT for part in name.parts) and path.suffix not in _LEFT_OUT:
            yield path, str(name)
    for needed in sorted(_needed("qanat", set())):
        for file in distribution(needed).files or ():
            path = Path(str(file.locate()))
            # Scripts lie outside of the packages' folder, and nobody calls them there.
            if path.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                yield path, str(file)


def _needed(name: str, known: set[str]) -> set[str]:
    """The distributions that a plain installation brings along, their own needs included."""
    for requirement in distribution(name).requires or ():
        found = _NEEDED.match(requirement)
        is_extra = "extra ==" in requirement
        if found is None or is_extra or found[1] in known:
            continue
        try:
            distribution(found[1])
        except PackageNotFoundError:
            # Not for this machine: a marker says so, and pip has obeyed it.
            continue
        known.add(found[1])
        _needed(found[1], known)
    return known
