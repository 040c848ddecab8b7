# The C types of plain_appends.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.append_state cimport LogEnd

cdef class PlainAppends:
    cdef public object clock_ms, counters, _commits
    cdef public long long requests_handled
    cdef public dict _lines
    @cython.locals(size=cython.longlong, now_ms=cython.longlong)
    cpdef append_plain(self, LogEnd log, batch, long long record_count, long long max_timestamp, long long leader_epoch)
    cpdef _appended(self, LogEnd log, appended, long long size)
