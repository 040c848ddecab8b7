# The C types of short_ways.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.runtime.plain_appends cimport PlainAppends
from qanat.servers.kafka.produce_fast_path cimport LoneProduces

cdef class ShortWays:
    cdef public PlainAppends _runtime
    cdef public LoneProduces _lone_produces
    cdef public object _lone_fetches, interceptor
    @cython.locals(began=double)
    cpdef handle(self, frame, connection)
