# The C types of connection.py, for Cython; nothing here changes what the code means.
cimport cython
from qanat.wire.frames cimport FrameReader

cdef class _Slot:
    cdef public Py_ssize_t size
    cdef public object answer
    cdef public bint is_done

cdef class KafkaConnection:
    cdef public object _handle, _limits, _transport, _on_close, _on_fault, _waiting, _slots, _held_by, _cancellables
    cdef public list _unsent
    cdef public FrameReader _frames
    cdef public long long _begun_bytes, _unanswered_bytes
    cdef public bint _can_write, _is_scheduled
    # What handlers and listeners read and set.
    cdef public double session_end_s
    cdef public object conversation, login_guard, session, renewal, on_renewed, on_expired, principal, security, permissions, last_denial, refused_batches
    cdef public object listener_name, listener_protocol, on_refused, on_authenticated, peer, host, client_id
    cdef public bint is_reading, is_closed_by_broker, is_over_inter_broker, is_inter_broker, is_refused
    cpdef get_buffer(self, sizehint)
    @cython.locals(frames=list, held=cython.longlong, is_idle=bint)
    cpdef buffer_updated(self, long long nbytes)
    cdef _answer_single(self, frame)
    @cython.locals(size=cython.longlong)
    cdef _received(self, list frames, long long held)
    @cython.locals(left=int)
    cpdef _advance(self)
    cdef _schedule(self)
    cdef _release(self, long long size)
    cdef bint _may_continue(self) except -1
    cdef _send(self, list answer)
    cpdef _send_small(self)
    @cython.locals(may_read=bint, is_starved=bint, is_full=bint)
    cpdef regulate(self)
