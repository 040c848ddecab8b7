# The C types of growth.py, for Cython; nothing here changes what the code means.
from cpython.bytearray cimport PyByteArray_Resize

cdef bint COMPILED

cpdef int lengthen(bytearray buffer, Py_ssize_t size) except -1

cdef inline int native_resize(bytearray buffer, Py_ssize_t size) except -1:
    return PyByteArray_Resize(buffer, size)
