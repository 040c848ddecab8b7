# The C types of append_state.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.directory_state cimport DirectoryState
from qanat.log.segments.segment_end cimport SegmentEnd
from qanat.wire.kafka.fast_produce cimport FastHeader
from qanat.wire.placing cimport place

@cython.final
cdef class Appended:
    cdef readonly long long base_offset, last_offset
    cdef readonly bint is_duplicate, is_flush_due

cdef class LogEnd:
    cdef public DirectoryState state
    cdef public object files, directory, topic_partition, settings, epochs, producers, unflushed_since_ms, running_job
    cdef public list segments, closed
    cdef public bint is_appending, is_flushed, has_new_names
    cdef public long long log_start_offset, high_watermark, unflushed_bytes, unflushed_records, flushed_offset, _first_epoch
    cdef long long _segment_bytes, _segment_age_ms, _after_max_ms, _fast_bytes_max
    cdef public long long _flush_messages, flush_ms
    cpdef bint admits_fast(self, long long size, long long max_timestamp, long long now_ms) except -1
    @cython.locals(size=cython.longlong, base_offset=cython.longlong, last_offset=cython.longlong, segment=SegmentEnd)
    cpdef Appended append_fast(self, batch, FastHeader header, long long leader_epoch, long long now_ms)
    cpdef Appended appended(self, header, long long base_offset, long long now_ms)
    @cython.locals(appended=Appended)
    cpdef Appended describe_append(self, long long base_offset, long long last_offset)
    @cython.locals(segment=SegmentEnd)
    cpdef SegmentEnd segment_for(self, long long last_delta, long long size, long long base_offset, long long now_ms)
    @cython.locals(segment=SegmentEnd)
    cpdef note_append(self, long long last_delta, long long size, long long base_offset, long long leader_epoch, long long now_ms)
    @cython.locals(end_offset=cython.longlong)
    cpdef advance_high_watermark(self, long long offset)
