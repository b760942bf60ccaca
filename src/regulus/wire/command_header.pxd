cimport cython


@cython.no_gc
cdef class CommandHeader:
    cdef public int code
    cdef public int language
    cdef public int version
    cdef public int opaque
    cdef public int flag
    cdef public str remark
    cdef dict _ext
    cdef bytes _ext_json
    cdef bytes _ext_binary
