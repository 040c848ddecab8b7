# The C types of directory_state.py, for Cython; nothing here changes what the code means.
cdef class DirectoryState:
    cdef public object failure, on_damage, on_failure, on_high_watermark
    cdef public long long unflushed_bytes
