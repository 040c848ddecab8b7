# The C types of fast_dispatch.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.api.permissions cimport Permissions
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.servers.kafka.connection cimport KafkaConnection
from qanat.servers.kafka.produce_fast_path cimport ProduceFastPath

cdef class FastDispatch:
    cdef public AppendFastPath _runtime
    cdef public ProduceFastPath _produce_fast_path
    cdef public object _broker, _fetch_fast_path, _handle_ordinary, interceptor
    @cython.locals(began=double, permissions=Permissions)
    cpdef handle(self, frame, KafkaConnection connection)
    @cython.locals(found=Permissions)
    cdef Permissions _permissions_of(self, KafkaConnection connection)
