"""Whether mapped bytes are in memory already: `mincore`, which Python does not offer.

The calls go through `PyDLL`, which keeps the interpreter lock: they take microseconds,
and handing the lock over could cost the event loop a whole switch interval.
"""

from __future__ import annotations

import ctypes
import mmap
import sys


class _Buffer(ctypes.Structure):
    """`Py_buffer`, part of the stable ABI; only `buf` is read."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_Buffer),)
_release_buffer.restype = None

_mincore = None
if sys.platform == "linux":
    _mincore = ctypes.PyDLL(None).mincore
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    _mincore.restype = ctypes.c_int

_PAGE_BYTES = mmap.PAGESIZE


def address_of(view: memoryview) -> int:
    """Where the bytes of a view lie. The address is good for as long as the view is held."""
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    try:
        return buffer.buf or 0
    finally:
        _release_buffer(ctypes.byref(buffer))


def is_resident(map_address: int, position: int, length: int) -> bool:
    """Whether every page under that range of a map is in memory; True where nobody can tell."""
    if _mincore is None or length <= 0:
        return True
    start = position - position % _PAGE_BYTES
    span = position + length - start
    pages = bytes((span + _PAGE_BYTES - 1) // _PAGE_BYTES)
    vector = ctypes.create_string_buffer(pages, len(pages))
    if _mincore(map_address + start, span, vector) != 0:
        return True
    # Only the lowest bit of each byte is defined, but Linux leaves the others zero.
    return 0 not in vector.raw
