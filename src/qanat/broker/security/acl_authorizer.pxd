# The C types of acl_authorizer.py, for Cython; nothing here changes what the code means.

cdef class AclAuthorizer:
    cdef object _image, _index
    cdef dict _known
    cdef object _version, _unreadable
    cdef public object dry_run
