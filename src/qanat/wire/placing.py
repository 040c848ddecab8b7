# cython: language_level=3, annotation_typing=False
"""A batch's place in its log, written into the batch: every small request needs it.

Compiled and interpreted like `wire.record_reader`.
"""

from __future__ import annotations

from struct import Struct

from qanat.wire.batch_header import BYTES_BEFORE_LENGTH

COMPILED = not __file__.endswith(".py")
_pack_prefix_into = Struct(">qii").pack_into


def place(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset, length and leader epoch in a single batch that the caller owns."""
    if COMPILED:
        native_prefix(batch, base_offset, len(batch) - BYTES_BEFORE_LENGTH, leader_epoch)  # type: ignore[name-defined]  # noqa: F821
    else:
        _pack_prefix_into(batch, 0, base_offset, len(batch) - BYTES_BEFORE_LENGTH, leader_epoch)
