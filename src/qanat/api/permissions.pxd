# The C types of permissions.py, for Cython; nothing here changes what the code means.
cimport cython

cdef int _OPERATIONS, _KINDS

cdef class Permissions:
    cdef readonly object principal
    cdef readonly object _authorizer, _host
    cdef readonly bint _is_super
    cdef object _revised, _kind, _name, _allowed, _resource
    cdef long long _revision
    cdef readonly list _answers
    @cython.locals(answers=dict, is_same=bint)
    cpdef bint allow(self, operation, kind, name) except -1
    @cython.locals(answers=dict)
    cpdef bint knows(self, operation, kind, names) except -1
    cdef bint _ask(self, operation, kind, name) except -1
    @cython.locals(answers=dict, revision="long long", question=int)
    cdef dict _current(self, int operation, int kind)
