# The C types of fast_dispatch.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.runtime.append_fast_path cimport AppendFastPath
from qanat.servers.kafka.produce_fast_path cimport ProduceFastPath

cdef class FastDispatch:
    cdef public AppendFastPath _runtime
    cdef public ProduceFastPath _produce_fast_path
    cdef public object _fetch_fast_path, interceptor
    @cython.locals(began=double)
    cpdef handle(self, frame, connection)
