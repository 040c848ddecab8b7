# The C types of fast_dispatch.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.servers.kafka.produce_fast_path cimport ProduceFastPath
from qanat.servers.kafka.topic_permissions cimport TopicPermissions

cdef class FastDispatch:
    cdef public AppendFastPath _runtime
    cdef public ProduceFastPath _produce_fast_path
    cdef public object _broker, _fetch_fast_path, _handle_ordinary, interceptor
    @cython.locals(began=double, permissions=TopicPermissions)
    cpdef handle(self, frame, connection)
    @cython.locals(found=TopicPermissions)
    cdef TopicPermissions _permissions_of(self, connection)
