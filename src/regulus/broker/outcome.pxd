cimport cython


@cython.no_gc
@cython.freelist(64)
cdef class Frame:
    cdef public bytes octets

    cpdef list encode_parts(self)


@cython.no_gc
@cython.freelist(64)
cdef class Reply:
    cdef public object answer
    cdef public long long durable_at


@cython.locals(frame=Frame, reply=Reply)
cpdef Reply reply_frame(bytes octets, long long durable_at)


cdef class Hold:
    pass


cdef class NoReply:
    pass
