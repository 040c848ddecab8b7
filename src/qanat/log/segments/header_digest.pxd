# The C types of header_digest.py, for Cython; nothing here changes what the code means.
cdef unsigned long long _MASK, _FACTOR

cpdef unsigned long long extended(unsigned long long digest, long long base_offset, long long leader_epoch)
