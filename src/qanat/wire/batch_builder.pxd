# The C types of batch_builder.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int64_t
from qanat.wire.growth cimport lengthen
from qanat.wire.record_writer cimport PayloadWriter, difference, field_size, varint_size

cdef Py_ssize_t FIRST_BYTES

@cython.final
cdef class BatchBuilder:
    cdef readonly Py_ssize_t limit_bytes, count, size
    cdef readonly int64_t base_timestamp, max_timestamp
    cdef readonly bytearray payload
    cdef PayloadWriter writer

    @cython.locals(count=Py_ssize_t, delta=int64_t, body=Py_ssize_t, end=Py_ssize_t, writer=PayloadWriter)
    cpdef Py_ssize_t append(self, int64_t timestamp, bytes key, bytes value, tuple headers) except -2
    cpdef bytearray finish(self)
