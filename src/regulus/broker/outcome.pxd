cdef class Reply:
    cdef public object response


cdef class ReplyWhenDurable:
    cdef public object response
    cdef public long long end


cdef class Hold:
    pass


cdef class NoReply:
    pass
