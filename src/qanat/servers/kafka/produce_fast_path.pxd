# The C types of lone_produce.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.broker.replicas.partition_end cimport PartitionEnd
from qanat.telemetry.listener_counters cimport ApiCounters
from qanat.wire.kafka.lone_produce cimport FastProduce, read_fast_produce

cdef int ALL, NONE

cdef class ProduceFastPath:
    cdef object _broker, _patience
    cdef dict _writable
    cdef ApiCounters _counters
    @cython.locals(request=FastProduce, partition=PartitionEnd, counters=ApiCounters, acks=int, elapsed_s=double)
    cpdef take(self, frame, double began)

cpdef bint is_plain(FastProduce request, batch) except -1
