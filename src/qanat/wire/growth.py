# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""Buffers that grow while they are filled, without a write to memory that is not needed yet.

Where compiled, the new bytes are whatever the memory held, and a large buffer is
moved by its pages and not by its bytes; a page costs nothing before something is
written to it. Interpreted they are zeros.

Rule: whoever lengthens a buffer cuts it behind what he wrote before he gives it away.
"""

from __future__ import annotations

COMPILED = not __file__.endswith(".py")


def lengthen(buffer: bytearray, size: int) -> None:
    """Make `buffer` `size` bytes long; it must not be longer already, nor be viewed by anybody."""
    if COMPILED:
        native_resize(buffer, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        buffer.extend(bytes(size - len(buffer)))
