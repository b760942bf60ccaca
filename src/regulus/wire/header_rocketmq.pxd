cimport cython

from regulus.wire cimport big_endian
from regulus.wire.command_header cimport CommandHeader
from regulus.wire.header_json cimport cut

cdef int _SIZE_MIN
cdef int _NAME_SIZE_MAX
cdef int _SEND_MESSAGE_V2
cdef int _PULL_MESSAGE


@cython.locals(text="const unsigned char*", position=Py_ssize_t, remark_size=Py_ssize_t, ext_size=Py_ssize_t)
cpdef int decode(CommandHeader header, object data, Py_ssize_t start, Py_ssize_t end) except -1

@cython.locals(name_size=Py_ssize_t, value_size=Py_ssize_t, name_end=Py_ssize_t, value_start=Py_ssize_t, ext=dict)
cdef dict _decode_ext(const unsigned char* text, Py_ssize_t position, Py_ssize_t end)

cpdef dict parse_ext(bytes ext_binary)

@cython.locals(name_size=Py_ssize_t, value_size=Py_ssize_t)
cpdef bint is_whole_ascii(const unsigned char* text, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(bits=cython.uchar, position=Py_ssize_t)
cdef bint _is_ascii(const unsigned char* text, Py_ssize_t start, Py_ssize_t end) noexcept

cdef str _text(const unsigned char* text, Py_ssize_t start, Py_ssize_t end)

@cython.locals(code=cython.int, version=cython.int, remark=bytes, entries=bytes)
cpdef bytes encode(CommandHeader header, dict ext)

@cython.locals(parts=list)
cdef bytes _encode_ext(dict ext)
