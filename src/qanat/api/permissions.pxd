# The C types of permissions.py, for Cython; nothing here changes what the code means.
cimport cython

cdef class Permissions:
    cdef readonly object principal
    cdef readonly object _authorizer, _host
    cdef readonly bint _is_super
    cdef object _revised, _revision
    cdef readonly dict _decided
    @cython.locals(key=tuple)
    cpdef bint allow(self, operation, kind, name) except -1
    cdef dict _current(self)
