# The C types of partition_log.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.log.appended cimport Appended
from qanat.log.directory_state cimport DirectoryState
from qanat.log.segments.segment cimport Segment
from qanat.wire.kafka.fast_produce cimport FastHeader
from qanat.wire.placing cimport place

cdef class PartitionLog:
    cdef object __weakref__
    cdef public DirectoryState state
    cdef public object files, directory, topic_partition, settings, epochs, producers, unflushed_since_ms, running_job, flushed_headers
    cdef public list segments, closed
    cdef public bint is_appending, is_flushed, is_flushing, has_new_names
    cdef public long long log_start_offset, high_watermark, unflushed_bytes, unflushed_records, flushed_offset, cleaned_offset, flush_ms
    cdef public long long _first_epoch, _flush_messages
    cdef long long _segment_bytes, _segment_age_ms, _after_max_ms, _fast_bytes_max
    cdef Py_ssize_t _last_index
    cpdef bint admits_fast(self, long long size, long long max_timestamp, long long now_ms) except -1
    @cython.locals(size=cython.longlong, base_offset=cython.longlong, last_offset=cython.longlong, segment=Segment)
    cpdef Appended append_fast(self, batch, FastHeader header, long long leader_epoch, long long now_ms)
    cpdef Appended find_duplicate(self, header, long long leader_epoch)
    cpdef Appended appended(self, header, long long base_offset, long long now_ms)
    @cython.locals(appended=Appended)
    cpdef Appended describe_append(self, long long base_offset, long long last_offset)
    @cython.locals(segment=Segment)
    cpdef Segment segment_for(self, long long last_delta, long long size, long long base_offset, long long now_ms)
    @cython.locals(segment=Segment)
    cpdef note_append(self, long long last_delta, long long size, long long base_offset, long long leader_epoch, long long now_ms)
    cpdef require_leader(self, long long epoch)
    @cython.locals(end_offset=cython.longlong)
    cpdef advance_high_watermark(self, long long offset)
    @cython.locals(segment=Segment, last=Py_ssize_t, found=Py_ssize_t)
    cpdef Py_ssize_t segment_index(self, long long offset) except -1
