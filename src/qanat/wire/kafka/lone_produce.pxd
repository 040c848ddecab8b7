# The C types of lone_produce.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int32_t

cdef bint COMPILED
cdef int FIRST_VERSION, FLEXIBLE_FROM, LAST_VERSION, ZSTD_FROM, START_FROM, ERRORS_FROM, SMALLEST_BATCH, ATTRIBUTES_AT

@cython.final
cdef class LoneProduce:
    cdef readonly int32_t version, correlation_id, acks, timeout_ms, index
    cdef readonly Py_ssize_t start, end
    cdef readonly bytes name

@cython.locals(value=int)
cdef int int16_at(const unsigned char[::1] data, Py_ssize_t position) noexcept
@cython.locals(high=int)
cdef int32_t int32_at(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(size=Py_ssize_t, version=int, length=int, position=Py_ssize_t, at=Py_ssize_t, request=LoneProduce)
cpdef LoneProduce read_lone(const unsigned char[::1] data)
@cython.locals(length=Py_ssize_t)
cdef LoneProduce _plain(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t size, LoneProduce request)
@cython.locals(length=Py_ssize_t, shift=int)
cdef LoneProduce _flexible(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t size, LoneProduce request)
@cython.locals(at=Py_ssize_t)
cdef bint _is_plain_name(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t length) noexcept
@cython.locals(attributes=int)
cdef bint _is_usual(const unsigned char[::1] data, LoneProduce request) noexcept
