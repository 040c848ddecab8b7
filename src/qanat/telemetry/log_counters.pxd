# The C types of log_counters.py, for Cython; nothing here changes what the code means.
from qanat.telemetry.histogram cimport Histogram

cdef class LogCounters:
    cdef public long long appended_bytes, appended_records, cold_reads, compactions, damage_found, deleted_segments
    cdef public long long flushes, scrubbed_bytes
    cdef public Histogram flush_s, flush_acknowledged
