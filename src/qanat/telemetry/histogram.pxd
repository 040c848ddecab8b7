# The C types of histogram.py, for Cython; nothing here changes what the code means.
cdef class Histogram:
    cdef public tuple bounds
    cdef public list counts
    cdef public double total, _lowest
    cpdef observe(self, double value)
