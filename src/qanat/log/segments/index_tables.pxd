# The C types of index_tables.py, for Cython; nothing here changes what the code means.
cdef class GrowingTables:
    cdef public long long base_offset, interval_bytes, bytes_since_entry, last_timestamp
    cdef public bytearray digests, offsets, times
    cdef public list aborted
    cpdef enter(self, long long position, long long size, long long last_offset, long long max_timestamp, long long max_timestamp_offset)
