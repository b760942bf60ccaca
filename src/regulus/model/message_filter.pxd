cdef class Filter:
    cdef readonly object tags_codes
    cdef readonly bint reads_properties
    cdef readonly long long weight
