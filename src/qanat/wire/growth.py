# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""Buffers that grow while they are filled, without touching memory that is not needed yet.

Compiled, the new bytes are uninitialized memory, and a large buffer is
moved by its pages and not by its bytes; a page costs nothing before it
is written to. Interpreted they are zeros.

Rule: a caller that lengthens a buffer trims it behind what it wrote before passing it on.
"""

from __future__ import annotations

COMPILED = not __file__.endswith(".py")


def lengthen(buffer: bytearray, size: int) -> None:
    """Make `buffer` `size` bytes long; it must not be longer already, nor have views."""
    if COMPILED:
        native_resize(buffer, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        buffer.extend(bytes(size - len(buffer)))
