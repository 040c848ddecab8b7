# The C types of topic_permissions.py, for Cython; nothing here changes what the code means.
cimport cython

cdef int _DECISIONS_MAX

cdef class TopicPermissions:
    cdef public object principal
    cdef object _security, _authorizer, _broker, _caller, _revision
    cdef bint _is_revised
    cdef dict _decided
    @cython.locals(decided=dict)
    cpdef bint may_write(self, bytes name) except -1
    @cython.locals(decided=dict)
    cpdef bint may_use_transactional_id(self, bytes transactional_id) except -1
    @cython.locals(decided=dict)
    cpdef bint may_read(self, name) except -1
    cdef dict _current(self)
