# The C types of listener_counters.py, for Cython; nothing here changes what the code means.
from qanat.telemetry.histogram cimport Histogram

cdef class ApiCounters:
    cdef public long long requests, request_bytes, response_bytes, parked
    cdef public dict errors
    cdef public Histogram duration_s
    cdef public double loop_s
