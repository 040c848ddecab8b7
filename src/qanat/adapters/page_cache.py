"""Page cache: what Python does not offer of the kernel's maps: whether their bytes are in memory, and room to grow.

The calls go through `PyDLL`, which keeps the interpreter lock: they take microseconds,
and releasing the lock could cost the event loop a whole switch interval.
"""

from __future__ import annotations

import ctypes
import mmap
import os
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
_mmap = None
if sys.platform == "linux":
    _mincore = ctypes.PyDLL(None).mincore
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    _mincore.restype = ctypes.c_int

    _mmap = ctypes.PyDLL(None, use_errno=True).mmap
    _mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    _mmap.restype = ctypes.c_void_p

_PAGE_BYTES = mmap.PAGESIZE
_FEW_PAGES = 1024


class _Vector:
    """The kernel's answer for pages, one byte each."""

    __slots__ = ("_held", "address", "pages")

    def __init__(self, size: int) -> None:
        self.pages = bytearray(size)
        self._held = (ctypes.c_char * size).from_buffer(self.pages)
        self.address = ctypes.addressof(self._held)


_spare_vectors: list[_Vector] = []
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000


def map_growing(fd: int, size: int, ahead_bytes: int) -> mmap.mmap:
    """Map a file for reading, and the range into which it will grow: later writes appear in the map.

    Bytes past the file's end must not be touched before they are written. Where this is impossible, the map ends
    with the file.
    """
    if _mmap is None:
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    length = (size + ahead_bytes + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    # Python maps no more than a file has, so it maps anonymous memory, and the file is mapped in its place.
    room = mmap.mmap(-1, length, flags=flags, prot=mmap.PROT_READ)
    with memoryview(room) as view:
        address = address_of(view)
    if _mmap(address, length, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, fd, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return room


def address_of(view: memoryview) -> int:
    """The address of a view's bytes. It is valid for as long as the view is held."""
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    try:
        return buffer.buf or 0
    finally:
        _release_buffer(ctypes.byref(buffer))


def is_resident(map_address: int, position: int, length: int) -> bool:
    """Whether every page in that range of a map is in memory; True where the kernel cannot tell."""
    if _mincore is None or length <= 0:
        return True
    start = position - position % _PAGE_BYTES
    span = position + length - start
    pages = (span + _PAGE_BYTES - 1) // _PAGE_BYTES
    # Each thread uses a vector of its own; a new one is made where all are in use, or where one is too small.
    vector = _spare_vectors.pop() if _spare_vectors else _Vector(_FEW_PAGES)
    if pages > len(vector.pages):
        vector = _Vector(pages)
    if _mincore(map_address + start, span, vector.address) != 0:
        return True
    # Only the lowest bit of each byte is defined, but Linux leaves the others zero.
    is_resident = vector.pages.find(0, 0, pages) < 0
    _spare_vectors.append(vector)
    return is_resident
