cimport cython

from regulus.wire.command_header cimport CommandHeader

cdef int _NAME_SIZE_MAX


@cython.locals(position=Py_ssize_t, remark_size=Py_ssize_t, ext_size=Py_ssize_t)
cpdef int decode(CommandHeader header, bytes data, Py_ssize_t start, Py_ssize_t end) except -1

@cython.locals(name_size=Py_ssize_t, value_size=Py_ssize_t, name_end=Py_ssize_t, value_start=Py_ssize_t, ext=dict)
cdef dict _decode_ext(bytes data, Py_ssize_t position, Py_ssize_t end)

cdef str _text(bytes data, Py_ssize_t start, Py_ssize_t end)

@cython.locals(code=cython.int, version=cython.int)
cpdef bytes encode(CommandHeader header, dict ext)

@cython.locals(parts=list)
cdef bytes _encode_ext(dict ext)
