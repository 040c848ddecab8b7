# The C types of appended.py, for Cython; nothing here changes what the code means.
cimport cython

@cython.final
cdef class Appended:
    cdef public long long base_offset, last_offset
    cdef public bint is_duplicate, is_flush_due
