# The C types of placing.py, for Cython; nothing here changes what the code means.
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.stdint cimport int32_t, int64_t

cdef bint COMPILED

cdef inline void native_prefix(batch, int64_t base_offset, int32_t length, int32_t leader_epoch) noexcept:
    cdef unsigned char* data = <unsigned char*> PyMemoryView_GET_BUFFER(batch).buf
    cdef int at
    for at in range(8):
        data[at] = (base_offset >> (56 - 8 * at)) & 0xFF
    for at in range(4):
        data[8 + at] = (length >> (24 - 8 * at)) & 0xFF
        data[12 + at] = (leader_epoch >> (24 - 8 * at)) & 0xFF

cpdef place(batch, int64_t base_offset, int32_t leader_epoch)
