# The C types of segment.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.segments.header_digest cimport extended
from qanat.log.segments.index_tables cimport GrowingTables

cdef long long MAX_RELATIVE_OFFSET

cdef class Segment:
    cdef public object files, directory, file, tables, first_append_ms, sidecar, damage
    cdef public long long base_offset, next_offset, size, max_timestamp, max_timestamp_offset
    cdef public long long last_batch_position, last_batch_offset, last_batch_end_offset
    cdef public long long shown_size, read_offset, read_position
    cdef public unsigned long long digest
    cdef public bint is_dense, is_digested, are_headers_checked
    cpdef bint is_full(self, long long size, long long last_offset, long long now_ms, long long segment_bytes, long long age_ms) except -1
    cpdef append_fast(self, batch, long long size, long long base_offset, long long last_offset, long long leader_epoch, long long max_timestamp)
    @cython.locals(tables=GrowingTables)
    cpdef enter(self, long long position, long long size, long long base_offset, long long last_offset, long long leader_epoch, long long max_timestamp)
    cpdef view(self)
    cpdef bint is_next_read(self, long long offset) except -1
