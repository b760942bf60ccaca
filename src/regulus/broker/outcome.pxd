cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Reply:
    cdef public object answer
    cdef public long long durable_at

    cpdef list encode_parts(self)


@cython.locals(reply=Reply)
cpdef Reply reply_frame(bytes frame, long long durable_at)


cdef class Hold:
    pass


cdef class NoReply:
    pass
