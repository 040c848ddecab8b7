# The C types of partition_end.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.append_state cimport Appended, LogEnd
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.wire.kafka.fast_produce cimport FastHeader

@cython.final
cdef class Written:
    cdef readonly long long base_offset, append_time_ms
    cdef readonly object durable

@cython.locals(written=Written)
cpdef Written written_at(long long base_offset, long long append_time_ms, object durable)

cdef class PartitionEnd:
    cdef public LogEnd log
    cdef public AppendFastPath _runtime
    cdef public object at, leader, _acknowledged
    cdef public dict _waiting, _waiting_followers
    cdef public bint is_retired
    cdef public long long leader_epoch, written_bytes, readable_bytes
    @cython.locals(appended=Appended, end_offset=cython.longlong, log=LogEnd)
    cpdef Written append_fast(self, batch, FastHeader header)
    cpdef _advance_to(self, long long end_offset, long long log_end)
