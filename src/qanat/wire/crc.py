"""CRC-32C (Castagnoli), the checksum of record batches, from whichever library is installed.

`crc32c` takes any buffer at 20 GB/s; `google-crc32c` takes only bytes, so a
view is copied first. Either is enough.
"""

from __future__ import annotations

from collections.abc import Callable

Buffer = bytes | bytearray | memoryview


def _choose() -> Callable[[Buffer], int]:
    try:
        import crc32c as fast
    except ImportError:
        import google_crc32c as copying

        return lambda data: int(copying.value(bytes(data)))
    chosen: Callable[[Buffer], int] = fast.crc32c
    return chosen


crc32c = _choose()
