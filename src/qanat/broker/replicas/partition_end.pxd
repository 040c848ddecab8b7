# The C types of partition_end.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.append_state cimport LogEnd
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.wire.kafka.fast_produce cimport FastHeader

cdef class PartitionEnd:
    cdef public LogEnd log
    cdef public AppendFastPath _runtime
    cdef public object at, leader, _acknowledged
    cdef public dict _waiting, _waiting_followers
    cdef public bint is_retired
    cdef public long long leader_epoch, written_bytes, readable_bytes
    @cython.locals(end_offset=cython.longlong, log=LogEnd)
    cpdef append_fast(self, batch, FastHeader header)
    cpdef _advance_to(self, long long end_offset, long long log_end)
