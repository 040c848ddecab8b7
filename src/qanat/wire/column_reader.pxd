# The C types of column_reader.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
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
cdef class BatchPlace:
    cdef int64_t first, end, offset, timestamp
    cdef bint is_timestamp_fixed

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
    @cython.locals(cursor=RecordCursor, base=BatchPlace, left=Py_ssize_t)
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
    @cython.locals(column=BinaryFiller, needed=Py_ssize_t)
    cdef int make_room(self, Py_ssize_t rows, Py_ssize_t data_bytes) except -1
    cdef int add_record(self, RecordCursor cursor, BatchPlace base) except -1
    @cython.locals(_=Py_ssize_t)
    cdef int add_headers(self, RecordCursor cursor) except -1
    cpdef tuple finish(self)


cdef inline const unsigned char* native_short(const unsigned char* at, const unsigned char* end, int64_t* value) noexcept:
    """A number of at most four bytes; NULL where it is longer or cut off, which the cursor sees to."""
    cdef uint64_t bits = 0
    cdef int shift = 0
    while at < end and shift < 28:
        bits |= <uint64_t> (at[0] & 0x7F) << shift
        if at[0] < 0x80:
            value[0] = <int64_t> (bits >> 1) ^ -<int64_t> (bits & 1)
            return at + 1
        at += 1
        shift += 7
    return NULL

cdef inline Py_ssize_t native_fast(
    ColumnFiller filler, RecordCursor cursor, BatchPlace base, Py_ssize_t count
) noexcept:
    """Take records up to the first with headers, long numbers or a fault, or for which there is no room; how many."""
    cdef BinaryFiller keys = filler.keys
    cdef BinaryFiller values = filler.values
    cdef const unsigned char* start = &cursor.data[0] if cursor.end > 0 else NULL
    cdef const unsigned char* at = start + cursor.position
    cdef const unsigned char* end = start + cursor.end
    cdef const unsigned char* record_end
    cdef const unsigned char* key
    cdef const unsigned char* next_at
    cdef int64_t length = 0, timestamp = 0, delta = 0, key_length = 0, value_length = 0, headers = 0
    cdef int64_t last_delta = cursor.offset_delta
    cdef Py_ssize_t taken = 0, row
    while taken < count:
        next_at = native_short(at, end, &length)
        if next_at == NULL or length < 1 or length > end - next_at:
            break
        record_end = next_at + length
        next_at = native_short(next_at + 1, record_end, &timestamp)
        if next_at == NULL:
            break
        next_at = native_short(next_at, record_end, &delta)
        if next_at == NULL or delta <= last_delta or delta > cursor.last_offset_delta:
            break
        if delta < base.first or delta >= base.end:
            break
        next_at = native_short(next_at, record_end, &key_length)
        if next_at == NULL or key_length < -1 or key_length > record_end - next_at:
            break
        key = next_at
        if key_length > 0:
            next_at += key_length
        next_at = native_short(next_at, record_end, &value_length)
        if next_at == NULL or value_length < 0 or value_length != record_end - next_at - 1:
            break
        # One byte is left: the number of headers.
        if record_end[-1] != 0:
            break
        row = filler.row
        if row >= filler.rows or keys.row >= keys.rows or values.row >= values.rows:
            break
        if key_length > keys.capacity - keys.position or value_length > values.capacity - values.position:
            break
        if key_length < 0:
            if keys.null_count == 0:
                break
            keys.bits[keys.row >> 3] &= ~(1 << (keys.row & 7))
            keys.null_count += 1
        elif key_length > 0:
            memcpy(&keys.data[keys.position], key, key_length)
            keys.position += key_length
        keys.row += 1
        keys.offsets[keys.row] = <int32_t> keys.position
        if value_length > 0:
            memcpy(&values.data[values.position], next_at, value_length)
            values.position += value_length
        values.row += 1
        values.offsets[values.row] = <int32_t> values.position
        filler.offsets[row] = base.offset + delta
        filler.timestamps[row] = base.timestamp if base.is_timestamp_fixed else base.timestamp + timestamp
        filler.row = row + 1
        filler.header_offsets[row + 1] = <int32_t> filler.header_keys.row
        last_delta = delta
        at = record_end
        taken += 1
    cursor.position = at - start
    cursor.offset_delta = last_delta
    return taken
