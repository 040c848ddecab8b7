# The C types of partition.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.appended cimport Appended
from qanat.log.partition_log cimport PartitionLog
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.wire.kafka.fast_produce cimport FastHeader

@cython.final
cdef class Written:
    cdef public long long base_offset, append_time_ms
    cdef public object durable

@cython.locals(written=Written)
cpdef Written written_at(long long base_offset, long long append_time_ms, object durable)

cdef class Partition:
    cdef public PartitionLog log
    cdef public AppendFastPath _runtime
    cdef public object at, topic, leader, topic_id, why_retired, outbox, _acknowledged, _known
    cdef public list _starting
    cdef public dict _waiting, _waiting_followers
    cdef public bint is_retired, is_mirror
    cdef public long long leader_epoch, written_bytes, readable_bytes, epoch_start, min_insync_replicas
    @cython.locals(appended=Appended, end_offset=cython.longlong, log=PartitionLog)
    cpdef Written append_fast(self, batch, FastHeader header)
    cpdef Written _written(self, Appended appended, long long size)
    cpdef Written _written_for_followers(self, Appended appended)
    cpdef _when_committed(self, long long end_offset)
    cpdef _wake_followers(self)
    @cython.locals(log=PartitionLog, end_offset=cython.longlong, log_end=cython.longlong)
    cpdef advance(self)
    cpdef _advance_to(self, long long end_offset, long long log_end)
    @cython.locals(log=PartitionLog, last=cython.longlong)
    cpdef read_now(self, long long offset, long long max_bytes, long long end_offset)
