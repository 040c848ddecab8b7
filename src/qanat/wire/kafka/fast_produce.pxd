# The C types of fast_produce.py, for Cython; nothing here changes what the code means.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef bint COMPILED
cdef int FIRST_VERSION, FLEXIBLE_FROM, TOPIC_IDS_FROM, LAST_VERSION, ZSTD_FROM, START_FROM, ERRORS_FROM, SMALLEST_BATCH
cdef int FIRST_ANSWER, START_ANSWER, ERRORS_ANSWER, FLEXIBLE_ANSWER, TOPIC_ID_ANSWER, TOPIC_ID_SIZE
cdef int LENGTH_AT, BYTES_BEFORE_LENGTH, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT, COUNT_AT
cdef int PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT, CODECS, LAST_CODEC, ZSTD, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL

@cython.final
cdef class FastHeader:
    cdef readonly int32_t record_count, last_offset_delta, base_sequence, producer_epoch
    cdef readonly uint32_t crc
    cdef readonly int64_t max_timestamp, producer_id
    cdef readonly bint is_transactional

@cython.final
cdef class FastProduce:
    cdef readonly int32_t version, correlation_id, acks, timeout_ms, index
    cdef readonly Py_ssize_t start, end, client_id_end
    cdef readonly bytes topic, transactional_id
    cdef readonly FastHeader header

@cython.locals(value=int)
cdef int int16_at(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(high=int)
cdef int32_t int32_at(const unsigned char* data, Py_ssize_t position) noexcept
cdef uint32_t uint32_at(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(high=int64_t)
cdef int64_t int64_at(const unsigned char* data, Py_ssize_t position) noexcept

cdef inline const unsigned char* native_bytes(view) noexcept:
    return <const unsigned char*> PyMemoryView_GET_BUFFER(view).buf

cpdef FastProduce read_fast_produce(frame)
cpdef FastHeader read_fast_header(batch)
@cython.locals(version=int, length=int, position=Py_ssize_t, at=Py_ssize_t, request=FastProduce)
cdef FastProduce _read(const unsigned char* data, Py_ssize_t size)
@cython.locals(length=Py_ssize_t)
cdef FastProduce _plain(const unsigned char* data, Py_ssize_t position, Py_ssize_t size, FastProduce request)
@cython.locals(length=Py_ssize_t, shift=int)
cdef FastProduce _flexible(const unsigned char* data, Py_ssize_t position, Py_ssize_t size, FastProduce request)
@cython.locals(length=Py_ssize_t)
cdef Py_ssize_t _flexible_topic(const unsigned char* data, Py_ssize_t position, Py_ssize_t size, FastProduce request) except -1
@cython.locals(at=Py_ssize_t)
cdef bint _is_plain_name(const unsigned char* data, Py_ssize_t position, Py_ssize_t length) noexcept
@cython.locals(attributes=int)
cdef bint _is_usual(const unsigned char* data, FastProduce request) except -1
@cython.locals(attributes=int, count=int32_t, header=FastHeader)
cdef FastHeader _header(const unsigned char* data, Py_ssize_t at, Py_ssize_t end)

cdef inline bytes new_bytes(Py_ssize_t size):
    return PyBytes_FromStringAndSize(NULL, size)

# Only of bytes that nobody has seen yet.
cdef inline unsigned char* bytes_start(bytes data) noexcept:
    return <unsigned char*> PyBytes_AS_STRING(data)

@cython.locals(size=Py_ssize_t)
cpdef bytes write_fast_produce(FastProduce request, int64_t base_offset, int64_t append_time_ms, int64_t log_start_offset)
@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _answer_size(FastProduce request) except -1
@cython.locals(version=int, is_flexible=bint, topic=bytes, length=Py_ssize_t, at=Py_ssize_t, place=Py_ssize_t)
cdef int _answer(
    unsigned char* target, Py_ssize_t size, FastProduce request,
    int64_t base_offset, int64_t append_time_ms, int64_t log_start_offset
) except -1
@cython.locals(end=Py_ssize_t, place=Py_ssize_t)
cdef Py_ssize_t put(unsigned char* target, Py_ssize_t at, int64_t value, int width) noexcept
