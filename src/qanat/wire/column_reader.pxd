# The C types of column_reader.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from qanat.wire.growth cimport lengthen
from qanat.wire.record_reader cimport RecordCursor

cdef bint COMPILED
cdef Py_ssize_t SMALLEST_ROWS, SMALLEST_BYTES

cdef Py_ssize_t grown(Py_ssize_t needed, Py_ssize_t capacity, Py_ssize_t smallest, Py_ssize_t largest) except -1

@cython.final
cdef class BinaryFiller:
    cdef bytearray validity, offsets_buffer, data_buffer
    cdef unsigned char[::1] bits, data
    cdef int32_t[::1] offsets
    cdef Py_ssize_t capacity, largest, position, row, rows
    cdef readonly Py_ssize_t null_count

    cdef int view(self) except -1
    cdef int unview(self) except -1
    @cython.locals(rows=Py_ssize_t)
    cdef int grow_rows(self, Py_ssize_t needed) except -1
    @cython.locals(capacity=Py_ssize_t)
    cdef int grow_data(self, Py_ssize_t needed) except -1
    cdef int first_null(self) except -1
    cdef int add(self, RecordCursor cursor, Py_ssize_t start, Py_ssize_t length) except -1
    cdef int finish(self) except -1
    cpdef tuple buffers(self)

cdef inline void native_copy(
    BinaryFiller target, RecordCursor source, Py_ssize_t start, Py_ssize_t length
) noexcept:
    memcpy(&target.data[target.position], &source.data[start], length)

@cython.final
cdef class ColumnFiller:
    cdef bytearray offsets_buffer, timestamps_buffer, header_offsets_buffer
    cdef int64_t[::1] offsets, timestamps
    cdef int32_t[::1] header_offsets
    cdef readonly BinaryFiller keys, values, header_keys, header_values
    cdef Py_ssize_t expected_bytes, largest, row, rows

    cdef int view(self) except -1
    cdef int unview(self) except -1
    @cython.locals(rows=Py_ssize_t)
    cdef int grow_rows(self, Py_ssize_t needed) except -1
    cdef int expect_rows(self, Py_ssize_t rows) except -1
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
    cpdef tuple finish(self)
