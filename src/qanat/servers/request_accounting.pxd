# The C types of request_accounting.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.telemetry.listener_counters cimport ApiCounters

cdef double SHORTEST_SLOW_S

cdef class RequestAccounting:
    cdef public ApiCounters counters
    cdef object _name, _settings, _log_slow
    cpdef arrived(self, long long size)
    @cython.locals(elapsed_s=double, counters=ApiCounters)
    cpdef double answered_at_once(self, double began, long long size) except? -1
    cpdef handled(self, double began)
    cpdef parked(self)
    cpdef unparked(self)
    @cython.locals(elapsed_s=double)
    cpdef double answered(self, double began, long long size) except? -1
    cpdef bint is_slow(self, double elapsed_s) except -1
