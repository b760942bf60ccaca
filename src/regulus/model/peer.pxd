cdef class Peer:
    cdef public int channel
    cdef public bytes remote
    cdef public bytes local
    cdef public str remote_text
    cdef public str local_address
    cdef public str user
