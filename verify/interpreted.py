"""The interpreted build: Qanat's modules from their sources, although compiled ones lie next to them."""

from __future__ import annotations

import sys
from importlib.abc import PathEntryFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "qanat"


def import_interpreted() -> None:
    """From now on, modules of Qanat are interpreted, so that all of them can be patched. None may be imported yet."""
    assert "qanat" not in sys.modules, "Qanat is imported already"
    find_sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def hook(path: str) -> PathEntryFinder:
        if not Path(path).resolve().is_relative_to(SOURCES):
            raise ImportError(f"{path} is not of Qanat", path=path)
        return find_sources(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
