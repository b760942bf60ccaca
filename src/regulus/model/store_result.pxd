cdef class Appended:
    cdef public object status
    cdef public long long start
    cdef public long long end
    cdef public long long queue_offset
    cdef public str remark
    cdef public tuple starts
