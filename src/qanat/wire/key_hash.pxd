# The C types of key_hash.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport int32_t, uint64_t

cdef bint COMPILED
cdef uint64_t SEED, FACTOR, LOW, POSITIVE

@cython.locals(hashed=uint64_t, k=uint64_t, whole=Py_ssize_t, at=Py_ssize_t)
cdef uint64_t hash_of(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t length) noexcept

@cython.locals(rows=Py_ssize_t, row=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cpdef int place_rows(
    const int32_t[::1] offsets, const unsigned char[::1] data, Py_ssize_t count, int32_t[::1] targets
) except -1
