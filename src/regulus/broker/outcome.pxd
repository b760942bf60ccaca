cimport cython


cdef class Reply:
    cdef public object response


@cython.no_gc
@cython.freelist(16)
cdef class ReplyFrame:
    cdef public bytes frame


@cython.no_gc
@cython.freelist(16)
cdef class ReplyFrameWhenDurable:
    cdef public bytes frame
    cdef public long long end


cdef class ReplyWhenDurable:
    cdef public object response
    cdef public long long end


cdef class Hold:
    pass


cdef class NoReply:
    pass
