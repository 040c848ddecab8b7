# The C types of crc_change.py, for Cython; nothing here changes what the code means.
cimport cython
from libc.stdint cimport uint32_t

cdef uint32_t POLYNOMIAL, ONE, X_TO_8

@cython.locals(power=uint32_t)
cpdef uint32_t carried(uint32_t difference, Py_ssize_t length) noexcept

@cython.locals(total=uint32_t, bit=uint32_t)
cdef uint32_t product(uint32_t left, uint32_t right) noexcept
