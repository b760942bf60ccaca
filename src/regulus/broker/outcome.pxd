cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Reply:
    cdef public object answer
    cdef public long long durable_at
    cdef public long long change
    cdef public bint is_firm
    cdef public object unsent

    cpdef list encode_parts(self)


@cython.locals(reply=Reply)
cpdef Reply plain_reply(object answer, long long durable_at)


cdef class Hold:
    pass


cdef class NoReply:
    pass


@cython.final
@cython.freelist(64)
cdef class Notice:
    cdef public long long channel
    cdef public Reply reply
