# The C types of record_reader.py, for Cython; nothing here changes what the code means.
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

cdef bint COMPILED
cdef int FEW_MASK

cdef inline void native_pause() noexcept:
    with nogil:
        pass

cdef void let_threads_run(Py_ssize_t row) noexcept

@cython.final
cdef class RecordCursor:
    cdef const unsigned char[::1] data
    cdef Py_ssize_t position, end, record_start, record_end
    cdef int64_t attributes, timestamp_delta, offset_delta, last_offset_delta
    cdef Py_ssize_t key_start, key_length, value_start, value_length, header_count
    cdef Py_ssize_t header_key_start, header_key_length, header_value_start, header_value_length

    @cython.locals(byte=int64_t, bits=int64_t)
    cdef int64_t varint(self, Py_ssize_t end) except? -9
    @cython.locals(byte=uint64_t, shift=int)
    cdef int64_t long_varint(self, Py_ssize_t end, uint64_t bits) except? -9
    @cython.locals(length=int64_t)
    cdef Py_ssize_t field(self, str what) except -2
    @cython.locals(length=int64_t, delta=int64_t)
    cdef int next_record(self) except -1
    cdef int next_header(self) except -1
    @cython.locals(number=Py_ssize_t)
    cdef int skip_headers(self) except -1
    cdef int end_record(self) except -1
    cdef int end_payload(self) except -1
    @cython.locals(timestamp=int64_t)
    cdef int64_t timestamp(self, int64_t base_timestamp) noexcept
    cdef take(self, Py_ssize_t start, Py_ssize_t length)

cdef inline bytes native_take(RecordCursor cursor, Py_ssize_t start, Py_ssize_t length):
    if length == 0:
        return b""
    return PyBytes_FromStringAndSize(<const char*> &cursor.data[start], length)

cdef inline void native_copy(unsigned char[::1] target, Py_ssize_t at, RecordCursor cursor, Py_ssize_t length) noexcept:
    memcpy(&target[at], &cursor.data[cursor.record_start], length)

@cython.locals(cursor=RecordCursor, null_keys=Py_ssize_t, row=Py_ssize_t)
cpdef Py_ssize_t count_null_keys(const unsigned char[::1] payload, Py_ssize_t count, int64_t last_offset_delta) except -1

@cython.locals(cursor=RecordCursor, records=list, row=Py_ssize_t)
cpdef list split_records(const unsigned char[::1] payload, Py_ssize_t count, int64_t last_offset_delta)

@cython.locals(headers=list, number=Py_ssize_t)
cdef tuple split_headers(RecordCursor cursor)

cdef tuple text_headers(RecordCursor cursor)

@cython.locals(cursor=RecordCursor, records=list, row=Py_ssize_t, headers=tuple)
cpdef list build_records(
    const unsigned char[::1] payload,
    Py_ssize_t count,
    int64_t last_offset_delta,
    int64_t first_delta,
    int64_t base_offset,
    int64_t base_timestamp,
    bint is_timestamp_fixed,
    object make,
    object topic,
    object partition,
    object delivery_count,
    object leader_epoch,
)

@cython.locals(row=Py_ssize_t)
cdef int fill_scan(
    RecordCursor cursor, Py_ssize_t count, int64_t[::1] deltas, unsigned char[::1] tombstones, list keys
) except -1

@cython.locals(row=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, timestamp=int64_t, latest=int64_t)
cdef tuple fill_kept(
    RecordCursor cursor,
    Py_ssize_t count,
    const unsigned char[::1] keep,
    int64_t base_timestamp,
    unsigned char[::1] kept,
)
