# The C types of append_fast_path.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.appended cimport Appended
from qanat.log.partition_log cimport PartitionLog
from qanat.telemetry.log_counters cimport LogCounters
from qanat.wire.kafka.fast_produce cimport FastHeader

cdef class AppendFastPath:
    cdef public object clock_ms, _commits
    cdef public LogCounters counters
    cdef public long long requests_handled
    cdef public dict _queues, _flush_timers
    @cython.locals(size=cython.longlong, now_ms=cython.longlong, appended=Appended)
    cpdef Appended append_fast(self, PartitionLog log, batch, FastHeader header, long long leader_epoch)
    @cython.locals(counters=LogCounters)
    cpdef _appended(self, PartitionLog log, Appended appended, long long size)
