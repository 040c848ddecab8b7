# The C types of produce_fast_path.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.api.permissions cimport Permissions
from qanat.broker.replicas.partition cimport Partition, Written
from qanat.servers.kafka.connection cimport KafkaConnection
from qanat.servers.request_accounting cimport RequestAccounting
from qanat.wire.kafka.fast_produce cimport FastHeader, FastProduce, read_fast_produce

cdef int ALL, NONE, TOPIC_IDS_FROM

cdef class ProduceFastPath:
    cdef public object broker, ack_timeouts
    cdef public RequestAccounting accounting
    cdef dict _writable, _by_id
    @cython.locals(request=FastProduce, partition=Partition, written=Written, accounting=RequestAccounting, acks=int, elapsed_s=double)
    cpdef try_handle(self, frame, KafkaConnection connection, Permissions permissions, double began)
    @cython.locals(led=Partition)
    cdef Partition _find(self, FastProduce request)

@cython.locals(header=FastHeader)
cpdef Written append(FastProduce request, batch, Partition partition)
cpdef bint is_sound(FastHeader header, batch) except -1
cpdef bint is_open(Partition partition, FastHeader header) except -1
@cython.locals(transactional_id=bytes)
cpdef bint may_write(FastProduce request, name, Permissions permissions) except -1
