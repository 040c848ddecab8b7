# The C types of ends.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.directories.directory_state cimport DirectoryState
from qanat.log.segments.header_digest cimport extended
from qanat.log.segments.index_tables cimport GrowingTables
from qanat.wire.placing cimport place

cdef long long MAX_RELATIVE_OFFSET

cdef class SegmentEnd:
    cdef public long long base_offset, next_offset, size, max_timestamp, max_timestamp_offset
    cdef public long long last_batch_position, last_batch_offset, last_batch_end_offset
    cdef public unsigned long long digest
    cdef public bint is_dense, is_digested
    cdef public object file, tables, first_append_ms
    cpdef bint is_full(self, long long size, long long last_offset, long long now_ms, long long segment_bytes, long long age_ms) except -1
    cpdef append_plain(self, batch, long long size, long long base_offset, long long last_offset, long long leader_epoch, long long max_timestamp)
    @cython.locals(tables=GrowingTables)
    cpdef enter(self, long long position, long long size, long long base_offset, long long last_offset, long long leader_epoch, long long max_timestamp)

cdef class LogEnd:
    cdef public DirectoryState state
    cdef public object settings, epochs, unflushed_since_ms, job_in_hand
    cdef public list segments, closed
    cdef public bint is_appending, is_flushed
    cdef public long long log_start_offset, high_watermark, unflushed_bytes, unflushed_records, _first_epoch
    cdef long long _segment_bytes, _segment_age_ms, _after_max_ms, _plain_bytes
    cdef public long long _flush_messages, flush_ms
    cpdef bint admits_plain(self, long long size, long long max_timestamp, long long now_ms) except -1
    @cython.locals(size=cython.longlong, base_offset=cython.longlong, last_offset=cython.longlong, segment=SegmentEnd)
    cpdef append_plain(self, batch, long long record_count, long long max_timestamp, long long leader_epoch, long long now_ms)
    @cython.locals(segment=SegmentEnd)
    cpdef SegmentEnd segment_for(self, long long last_delta, long long size, long long base_offset, long long now_ms)
    @cython.locals(segment=SegmentEnd)
    cpdef take_note(self, long long last_delta, long long size, long long base_offset, long long leader_epoch, long long now_ms)
    @cython.locals(end_offset=cython.longlong)
    cpdef advance_high_watermark(self, long long offset)
