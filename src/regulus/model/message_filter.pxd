cdef class Filter:
    cdef readonly object tags_codes
    cdef readonly bint reads_properties
    cdef readonly long long weight
    cdef readonly list names

    cpdef bint matches(self, list values) except -1
