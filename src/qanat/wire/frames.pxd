# The C types of frames.py, for Cython; nothing here changes what the code means.
cimport cython
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from libc.stdint cimport int32_t, uint32_t

cdef bint COMPILED
cdef Py_ssize_t LENGTH_SIZE, _SHARED_BYTES, _SPARE_BUFFERS, _FEW_BYTES
cdef object _NOTHING

cdef inline int32_t native_length(buffer, Py_ssize_t position) noexcept:
    cdef const unsigned char* data = <const unsigned char*> PyMemoryView_GET_BUFFER(buffer).buf + position
    return <int32_t> (<uint32_t> data[0] << 24 | <uint32_t> data[1] << 16 | <uint32_t> data[2] << 8 | data[3])

cdef inline object native_copy(buffer, Py_ssize_t start, Py_ssize_t end):
    cdef const char* data = <const char*> PyMemoryView_GET_BUFFER(buffer).buf
    return PyMemoryView_FromObject(PyByteArray_FromStringAndSize(data + start, end - start))

cdef int32_t length_at(buffer, Py_ssize_t position) noexcept
cdef copied(buffer, Py_ssize_t start, Py_ssize_t end)

cdef class FrameReader:
    cdef Py_ssize_t _max_bytes, _start, _end, _frame_end
    cdef object _rooms, _shared, _frame
    cdef list _spare
    cdef bytes _rest
    cdef readonly Py_ssize_t held_bytes
    cpdef buffer(self)
    cdef _take_back(self)
    @cython.locals(end=Py_ssize_t)
    cpdef list received(self, Py_ssize_t count)
    @cython.locals(received=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t)
    cdef list _cut(self)
