# The C types of fast_replies.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.wire.frames cimport FrameReader

cdef class FastReplies:
    cdef public object _handle, _limits, _transport
    cdef public FrameReader _frames
    cdef public long long _begun_bytes, _unanswered_bytes
    cdef public bint _can_write
    cpdef get_buffer(self, sizehint)
    @cython.locals(frames=list, held=cython.longlong, is_idle=bint)
    cpdef buffer_updated(self, long long nbytes)
    cdef _answer_single(self, frame)
