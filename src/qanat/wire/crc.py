"""CRC-32C (Castagnoli), the checksum of record batches, from the installed library.

`crc32c` takes any buffer at 20 GB/s; `google-crc32c` takes only bytes, so a
view is copied first. Either is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

Buffer = bytes | bytearray | memoryview


def _choose() -> Callable[[Buffer], int]:
    chosen: Callable[[Buffer], int]
    try:
        chosen = _extension_of("crc32c").crc32c
    except ImportError:
        import google_crc32c as copying

        return lambda data: int(copying.value(bytes(data)))
    return chosen


def _extension_of(package: str) -> Any:
    """The package's compiled part alone: the rest of it is a command line, which is slow to import."""
    found = PathFinder.find_spec(package)
    inner = PathFinder.find_spec(f"{package}._{package}", found.submodule_search_locations) if found else None
    if inner is None or inner.loader is None:
        return import_module(package)
    module = module_from_spec(inner)
    inner.loader.exec_module(module)
    return module


crc32c = _choose()
