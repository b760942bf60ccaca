cimport cython


@cython.no_gc
@cython.freelist(16)
cdef class Appended:
    cdef public object status
    cdef public long long start
    cdef public long long end
    cdef public long long queue_offset
    cdef public str remark
    cdef public tuple starts


@cython.locals(appended=Appended)
cpdef Appended appended_one(long long start, long long end, long long queue_offset)
