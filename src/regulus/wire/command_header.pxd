cimport cython


@cython.no_gc
cdef class CommandHeader:
    cdef public int code
    cdef public int language
    cdef public int version
    cdef public int opaque
    cdef public int flag
    cdef public str remark
    cdef public dict ext_map
    cdef public bytes ext_json
    cdef public bytes ext_binary
