# The C types of record_writer.py, for Cython; nothing here changes what the code means.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy
from qanat.wire.growth cimport lengthen

cdef bint COMPILED
cdef Py_ssize_t EXPECTED_BYTES

@cython.locals(bits=uint64_t, size=Py_ssize_t)
cpdef Py_ssize_t varint_size(int64_t value) noexcept
@cython.locals(delta=int64_t)
cpdef int64_t difference(int64_t value, int64_t base) noexcept
cpdef Py_ssize_t field_size(bytes field) except -1

@cython.final
cdef class PayloadWriter:
    cdef bytearray buffer
    cdef unsigned char[::1] target
    cdef Py_ssize_t position, end

    cdef int byte(self, unsigned char value) except -1
    @cython.locals(bits=uint64_t)
    cdef int varint(self, int64_t value) except -1
    @cython.locals(length=Py_ssize_t)
    cdef int field(self, bytes field) except -1
    cdef int room(self, Py_ssize_t length) except -1
    @cython.locals(size=Py_ssize_t)
    cdef int grow(self, Py_ssize_t needed) except -1
    cdef int cut(self) except -1
    cdef int finished(self) except -1

cdef inline void native_write(PayloadWriter writer, bytes field, Py_ssize_t length) noexcept:
    if length > 0:
        memcpy(&writer.target[writer.position], PyBytes_AS_STRING(field), length)

@cython.locals(size=Py_ssize_t, body=Py_ssize_t, record=tuple, writer=PayloadWriter)
cpdef bytearray encode_records(list records, Py_ssize_t reserved)
@cython.locals(timestamp_delta=int64_t, offset_delta=int64_t, key=bytes, value=bytes, headers=tuple, size=Py_ssize_t)
cdef Py_ssize_t body_size(tuple record) except -1
@cython.locals(timestamp_delta=int64_t, offset_delta=int64_t, key=bytes, value=bytes, headers=tuple)
cdef int write_record(PayloadWriter writer, tuple record) except -1
cdef int write_headers(PayloadWriter writer, tuple headers) except -1

@cython.final
cdef class BinaryRows:
    cdef const unsigned char[::1] validity, data
    cdef const int32_t[::1] offsets
    cdef Py_ssize_t capacity, rows

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t length(self, Py_ssize_t row) except -2
    @cython.locals(length=Py_ssize_t)
    cdef Py_ssize_t size(self, Py_ssize_t row) except -1
    cdef int write(self, PayloadWriter writer, Py_ssize_t row) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int write_measured(self, PayloadWriter writer, Py_ssize_t row, Py_ssize_t length) except -1

cdef inline void native_copy(PayloadWriter writer, BinaryRows source, Py_ssize_t start, Py_ssize_t length) noexcept:
    memcpy(&writer.target[writer.position], &source.data[start], length)

@cython.final
cdef class RowEncoder:
    cdef const int64_t[::1] timestamps
    cdef const int32_t[::1] header_offsets
    cdef BinaryRows keys, values, header_keys, header_values
    cdef Py_ssize_t rows, key_length, value_length
    cdef int64_t delta, latest

    cdef int check_rows(self, Py_ssize_t first, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, header=Py_ssize_t)
    cdef Py_ssize_t body_size(self, Py_ssize_t first, Py_ssize_t row) except -1
    @cython.locals(
        payload=bytearray, writer=PayloadWriter, row=Py_ssize_t, body=Py_ssize_t, record_end=Py_ssize_t, limit=Py_ssize_t
    )
    cpdef tuple encode(self, Py_ssize_t first, Py_ssize_t end, Py_ssize_t limit_bytes, Py_ssize_t reserved)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, header=Py_ssize_t)
    cdef int write_row(self, PayloadWriter writer, Py_ssize_t first, Py_ssize_t row, Py_ssize_t body) except -1

cdef inline unsigned char* native_varint(unsigned char* at, int64_t value) noexcept:
    cdef uint64_t bits = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    while bits >= 0x80:
        at[0] = <unsigned char> (bits | 0x80)
        at += 1
        bits >>= 7
    at[0] = <unsigned char> bits
    return at + 1

cdef inline unsigned char* native_field(
    unsigned char* at, BinaryRows column, Py_ssize_t row, Py_ssize_t length
) noexcept:
    at = native_varint(at, length)
    if length > 0:
        memcpy(at, &column.data[column.offsets[row]], length)
        at += length
    return at

cdef inline void native_front(
    RowEncoder encoder, PayloadWriter writer, Py_ssize_t number, Py_ssize_t row, Py_ssize_t body
) noexcept:
    cdef unsigned char* start = &writer.target[writer.position]
    cdef unsigned char* at = native_varint(start, body)
    at[0] = 0
    at = native_varint(at + 1, encoder.delta)
    at = native_varint(at, number)
    at = native_field(at, encoder.keys, row, encoder.key_length)
    at = native_field(at, encoder.values, row, encoder.value_length)
    writer.position += at - start

cdef int python_front(RowEncoder encoder, PayloadWriter writer, Py_ssize_t number, Py_ssize_t row, Py_ssize_t body) except -1

cdef inline Py_ssize_t native_size(int64_t value) noexcept:
    cdef uint64_t bits = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    cdef Py_ssize_t size = 3
    if bits < 0x80:
        return 1
    if bits < 0x4000:
        return 2
    bits >>= 21
    while bits:
        size += 1
        bits >>= 7
    return size

# A column's buffers by their addresses; those without bytes have none.
cdef struct Spans:
    const unsigned char* validity
    const unsigned char* data
    const int32_t* offsets
    int64_t capacity

cdef inline Spans native_spans(BinaryRows column) noexcept:
    cdef Spans spans
    spans.validity = spans.data = NULL
    if column.validity is not None:
        spans.validity = &column.validity[0]
    if column.capacity > 0:
        spans.data = &column.data[0]
    spans.offsets = &column.offsets[0]
    spans.capacity = column.capacity
    return spans

# Bytes of a field, -1 for null, -2 for what lies outside of its column.
cdef inline int64_t native_length(Spans* column, Py_ssize_t row) noexcept:
    cdef int64_t start, end
    if column.validity != NULL and not column.validity[row >> 3] >> (row & 7) & 1:
        return -1
    start = column.offsets[row]
    end = column.offsets[row + 1]
    if start < 0 or end < start or end > column.capacity:
        return -2
    return end - start

# Writes rows as long as they have no headers, are valid and end before `limit`; the row at which that ends, which is
# for the walk to judge, or -1 where a row differs from its measured size.
cdef inline Py_ssize_t native_stretch(
    RowEncoder encoder, PayloadWriter writer, Py_ssize_t first, Py_ssize_t row, Py_ssize_t end, Py_ssize_t limit
) noexcept:
    cdef Spans keys, values
    cdef const int32_t* header_offsets
    cdef const int64_t* timestamps
    cdef unsigned char* target
    cdef unsigned char* at
    cdef int64_t key_length, value_length, base, delta, latest
    cdef Py_ssize_t body, record_end, position = writer.position
    end = min(end, encoder.keys.rows, encoder.values.rows)
    if row >= end or position >= limit:
        return row
    keys = native_spans(encoder.keys)
    values = native_spans(encoder.values)
    header_offsets = &encoder.header_offsets[0]
    timestamps = &encoder.timestamps[0]
    target = &writer.target[0]
    base = timestamps[first]
    latest = encoder.latest
    while row < end:
        if header_offsets[row] != header_offsets[row + 1]:
            break
        key_length = native_length(&keys, row)
        value_length = native_length(&values, row)
        if key_length == -2 or value_length == -2:
            break
        delta = <int64_t> (<uint64_t> timestamps[row] - <uint64_t> base)
        body = 2 + native_size(delta) + native_size(row - first) + native_size(key_length) + native_size(value_length)
        body += max(key_length, 0) + max(value_length, 0)
        record_end = position + native_size(body) + body
        if record_end > limit:
            break
        at = native_varint(target + position, body)
        at[0] = 0
        at = native_varint(at + 1, delta)
        at = native_varint(at, row - first)
        at = native_varint(at, key_length)
        if key_length > 0:
            memcpy(at, keys.data + keys.offsets[row], key_length)
            at += key_length
        at = native_varint(at, value_length)
        if value_length > 0:
            memcpy(at, values.data + values.offsets[row], value_length)
            at += value_length
        at[0] = 0
        position = at + 1 - target
        if position != record_end:
            return -1
        latest = max(latest, timestamps[row])
        row += 1
    writer.position = position
    encoder.latest = latest
    return row
