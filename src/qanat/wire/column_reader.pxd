# The C types of column_reader.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from qanat.wire.record_reader cimport RecordCursor

cdef bint COMPILED

@cython.locals(cursor=RecordCursor, is_wanted=bint, _=Py_ssize_t)
cpdef int measure(
    const unsigned char[::1] payload,
    Py_ssize_t count,
    int64_t last_offset_delta,
    int64_t first,
    int64_t end,
    int64_t[::1] totals,
) except -1

@cython.final
cdef class BinaryFiller:
    cdef unsigned char[::1] validity, data
    cdef int32_t[::1] offsets
    cdef Py_ssize_t capacity, row, rows, null_count

    @cython.locals(at=Py_ssize_t)
    cdef int add(self, RecordCursor cursor, Py_ssize_t start, Py_ssize_t length) except -1
    cdef int copy(self, RecordCursor cursor, Py_ssize_t start, Py_ssize_t length, Py_ssize_t at) except -1

cdef inline void native_copy(
    BinaryFiller target, Py_ssize_t at, RecordCursor source, Py_ssize_t start, Py_ssize_t length
) noexcept:
    if length > 0:
        memcpy(&target.data[at], &source.data[start], length)

@cython.final
cdef class ColumnFiller:
    cdef int64_t[::1] offsets, timestamps
    cdef int32_t[::1] header_offsets
    cdef BinaryFiller keys, values, header_keys, header_values
    cdef Py_ssize_t row

    @cython.locals(cursor=RecordCursor, _=Py_ssize_t)
    cpdef int fill(
        self,
        const unsigned char[::1] payload,
        Py_ssize_t count,
        int64_t last_offset_delta,
        int64_t first,
        int64_t end,
        int64_t base_offset,
        int64_t base_timestamp,
        bint is_timestamp_fixed,
    ) except -1
    @cython.locals(_=Py_ssize_t)
    cdef int add_headers(self, RecordCursor cursor) except -1
